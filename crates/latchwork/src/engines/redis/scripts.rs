//! The scripts: each verb is one, so that nothing can happen between its steps.

use super::options::Scheme;

/// A verb's script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Script {
    Claim,
    Beat,
    Release,
    Renew,
    Inspect,
    Revoke,
}

impl Script {
    pub(super) const ALL: [Self; 6] =
        [Self::Claim, Self::Beat, Self::Release, Self::Renew, Self::Inspect, Self::Revoke];

    /// Its text. Lock names never get into it: they travel as KEYS and ARGV.
    pub(super) fn source(self, scheme: Scheme) -> String {
        let parts: &[&str] = match (self, scheme) {
            (Self::Claim, Scheme::Set) => &[include_str!("lua/take_set.lua"), include_str!("lua/claim.lua")],
            (Self::Claim, Scheme::Setnx) => {
                &[include_str!("lua/take_setnx.lua"), include_str!("lua/claim.lua")]
            }
            (Self::Claim, Scheme::GetSet) => &[include_str!("lua/getset_claim.lua")],
            (Self::Release, Scheme::GetSet) => &[include_str!("lua/getset_release.lua")],
            (Self::Renew, Scheme::GetSet) => &[include_str!("lua/getset_renew.lua")],
            (Self::Beat, _) => &[include_str!("lua/beat.lua")],
            (Self::Release, _) => &[include_str!("lua/release.lua")],
            (Self::Renew, _) => &[include_str!("lua/renew.lua")],
            (Self::Inspect, _) => &[include_str!("lua/inspect.lua")],
            (Self::Revoke, _) => &[include_str!("lua/revoke.lua")],
        };
        parts.concat().replace("--{{hand_over}}", include_str!("lua/hand_over.lua"))
    }
}
