//! The scripts: each verb is one, so that nothing can happen between its steps.

use super::options::{Options, Scheme};

const CLAIM: &str = include_str!("lua/claim.lua");
/// The end of every claim that may have to wait.
const QUEUE: &str = include_str!("lua/queue.lua");

/// A verb's script.
#[derive(Clone, Copy, Debug)]
pub(super) enum Script {
    Claim,
    Beat,
    Release,
    Renew,
    Inspect,
    Revoke,
    CellWrite,
    Raise,
    Heal,
    Share,
    Leave,
    RenewShared,
    RevokeShared,
}

impl Script {
    /// In the order in which they are declared: those of every scheme, then those of Redlock, then those of claims that hold
    /// together with others.
    const ALL: [Self; 13] = [
        Self::Claim,
        Self::Beat,
        Self::Release,
        Self::Renew,
        Self::Inspect,
        Self::Revoke,
        Self::CellWrite,
        Self::Raise,
        Self::Heal,
        Self::Share,
        Self::Leave,
        Self::RenewShared,
        Self::RevokeShared,
    ];
    /// The first of those that few connections need.
    pub(super) const FIRST_SHARED: usize = Self::Share as usize;
    /// Those that few connections need.
    pub(super) const SHARED: &'static [Self] = Self::ALL.split_at(Self::FIRST_SHARED).1;

    /// The scripts that every connection with these options needs.
    pub(super) fn of(options: &Options) -> &'static [Self] {
        &Self::ALL[..if options.scheme == Scheme::Redlock { 9 } else { 7 }]
    }

    /// Its text. Of the options only numbers get into it, and nothing of a lock: that travels as KEYS and ARGV.
    pub(super) fn source(self, options: &Options) -> String {
        let parts: &[&str] = match (self, options.scheme) {
            (Self::Claim, Scheme::Set) => &[include_str!("lua/take_set.lua"), CLAIM, QUEUE],
            (Self::Claim, Scheme::Setnx) => &[include_str!("lua/take_setnx.lua"), CLAIM, QUEUE],
            (Self::Claim, Scheme::GetSet) => &[include_str!("lua/getset_claim.lua")],
            (Self::Release, Scheme::GetSet) => &[include_str!("lua/getset_release.lua")],
            (Self::Renew, Scheme::GetSet) => &[include_str!("lua/getset_renew.lua")],
            (Self::Claim, Scheme::Redlock) => &[include_str!("lua/redlock_claim.lua")],
            (Self::Release, Scheme::Redlock) => &[include_str!("lua/redlock_release.lua")],
            (Self::Raise, _) => &[include_str!("lua/redlock_raise.lua")],
            (Self::Heal, _) => &[include_str!("lua/redlock_heal.lua")],
            (Self::CellWrite, _) => &[include_str!("lua/cell_write.lua")],
            (Self::Beat, _) => &[include_str!("lua/beat.lua")],
            (Self::Release, _) => &[include_str!("lua/release.lua")],
            (Self::Renew, _) => &[include_str!("lua/renew.lua")],
            (Self::Inspect, _) => &[include_str!("lua/inspect.lua")],
            (Self::Revoke, _) => &[include_str!("lua/revoke.lua")],
            (Self::Share, _) => &[include_str!("lua/share.lua"), QUEUE],
            (Self::Leave, _) => &[include_str!("lua/leave.lua")],
            (Self::RenewShared, _) => &[include_str!("lua/renew_shared.lua")],
            (Self::RevokeShared, _) => &[include_str!("lua/revoke_shared.lua")],
        };
        let text = parts.concat().replace("--{{hand_over}}", include_str!("lua/hand_over.lua"));
        let text = text.replace("--{{sharing}}", include_str!("lua/sharing.lua"));
        let text = text.replace("--{{next_token}}", include_str!("lua/next_token.lua"));
        let text = text.replace("{{gap}}", &options.gap.as_millis().to_string());
        text.replace("{{most}}", &options.max_waiters.to_string())
    }
}
