//! The scripts: one per verb, so that no other command can come between its steps.

use super::lua;
use super::options::{Options, Scheme};
use crate::engine::Mode;

/// The script of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Claim,
    Heartbeat,
    Release,
    Renew,
    Inspect,
    Revoke,
    CellWrite,
    // Those of Redlock.
    Raise,
    Heal,
    // Those of claims that hold together with others.
    ClaimShared,
    ReleaseShared,
    RenewShared,
    RevokeShared,
}

impl Script {
    const BASIC: [Self; 7] = [
        Self::Claim,
        Self::Heartbeat,
        Self::Release,
        Self::Renew,
        Self::Inspect,
        Self::Revoke,
        Self::CellWrite,
    ];
    const REDLOCK: [Self; 9] = [
        Self::Claim,
        Self::Heartbeat,
        Self::Release,
        Self::Renew,
        Self::Inspect,
        Self::Revoke,
        Self::CellWrite,
        Self::Raise,
        Self::Heal,
    ];
    /// The scripts that a connection loads when it is first used for readers or permits. Few connections are.
    pub(super) const SHARED: [Self; 4] =
        [Self::ClaimShared, Self::ReleaseShared, Self::RenewShared, Self::RevokeShared];

    /// The scripts that every connection with these options loads.
    pub(super) fn of(options: &Options) -> &'static [Self] {
        if options.scheme == Scheme::Redlock { &Self::REDLOCK } else { &Self::BASIC }
    }

    /// The script that claims in this mode.
    pub(super) fn for_claim(mode: Mode) -> Self {
        if is_shared(mode) { Self::ClaimShared } else { Self::Claim }
    }

    /// The script that releases a claim in this mode.
    pub(super) fn for_release(mode: Mode) -> Self {
        if is_shared(mode) { Self::ReleaseShared } else { Self::Release }
    }

    /// Whether this is one of [`Self::SHARED`].
    pub(super) fn is_shared(self) -> bool {
        Self::SHARED.contains(&self)
    }

    /// The Lua source.
    pub(super) fn source(self, options: &Options) -> String {
        let parts = match (self, options.scheme) {
            (Self::Claim, Scheme::Set) => lua::CLAIM_SET,
            (Self::Claim, Scheme::Setnx) => lua::CLAIM_SETNX,
            (Self::Claim, Scheme::GetSet) => lua::GETSET_CLAIM,
            (Self::Claim, Scheme::Redlock) => lua::REDLOCK_CLAIM,
            (Self::Release, Scheme::GetSet) => lua::GETSET_RELEASE,
            (Self::Release, Scheme::Redlock) => lua::REDLOCK_RELEASE,
            (Self::Release, Scheme::Set | Scheme::Setnx) => lua::RELEASE,
            (Self::Renew, Scheme::GetSet) => lua::GETSET_RENEW,
            (Self::Renew, _) => lua::RENEW,
            (Self::Heartbeat, _) => lua::HEARTBEAT,
            (Self::Inspect, _) => lua::INSPECT,
            (Self::Revoke, _) => lua::REVOKE,
            (Self::CellWrite, _) => lua::CELL_WRITE,
            (Self::Raise, _) => lua::REDLOCK_RAISE,
            (Self::Heal, _) => lua::REDLOCK_HEAL,
            (Self::ClaimShared, _) => lua::CLAIM_SHARED,
            (Self::ReleaseShared, _) => lua::RELEASE_SHARED,
            (Self::RenewShared, _) => lua::RENEW_SHARED,
            (Self::RevokeShared, _) => lua::REVOKE_SHARED,
        };
        lua::compose(parts, options.gap.as_millis(), options.max_waiters)
    }
}

/// Whether other claims may hold beside one in this mode. A writer's key is like that of an exclusive claim.
pub(super) fn is_shared(mode: Mode) -> bool {
    matches!(mode, Mode::Read | Mode::Permit { .. })
}

/// The digests by which a server knows scripts.
pub(super) struct Digests(Vec<(Script, String)>);

impl Digests {
    /// From the replies to SCRIPT LOAD, in the order of `scripts`.
    pub(super) fn new(scripts: &[Script], digests: impl IntoIterator<Item = String>) -> Self {
        Self(scripts.iter().copied().zip(digests).collect())
    }

    pub(super) fn get(&self, script: Script) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == script).map(|(_, digest)| digest.as_str())
    }
}
