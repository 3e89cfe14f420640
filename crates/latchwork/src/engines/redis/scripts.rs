//! The scripts: each verb is one, so that nothing can happen between its steps.

use super::options::Scheme;

/// A verb's script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Script {
    Claim,
    Release,
    Renew,
    Inspect,
    Revoke,
}

impl Script {
    pub(super) const ALL: [Self; 5] = [Self::Claim, Self::Release, Self::Renew, Self::Inspect, Self::Revoke];

    /// Its text. Lock names never get into it: they travel as KEYS and ARGV.
    pub(super) const fn source(self, scheme: Scheme) -> &'static str {
        match (self, scheme) {
            (Self::Claim, Scheme::Set) => concat!(
                include_str!("lua/claim_fast_set.lua"),
                include_str!("lua/queue.lua"),
                include_str!("lua/claim.lua")
            ),
            (Self::Claim, Scheme::Setnx) => concat!(
                include_str!("lua/claim_fast_setnx.lua"),
                include_str!("lua/queue.lua"),
                include_str!("lua/claim.lua")
            ),
            (Self::Claim, Scheme::GetSet) => include_str!("lua/getset_claim.lua"),
            (Self::Release, Scheme::GetSet) => include_str!("lua/getset_release.lua"),
            (Self::Renew, Scheme::GetSet) => include_str!("lua/getset_renew.lua"),
            (Self::Release, _) => concat!(
                include_str!("lua/release.lua"),
                include_str!("lua/queue.lua"),
                include_str!("lua/release_slow.lua")
            ),
            (Self::Renew, _) => include_str!("lua/renew.lua"),
            (Self::Inspect, _) => include_str!("lua/inspect.lua"),
            (Self::Revoke, _) => include_str!("lua/revoke.lua"),
        }
    }
}
