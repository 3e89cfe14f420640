//! One master: the effect of the scripts `redlock_*.lua` on one lock.

/// Identifies an attempt of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// The client.
    pub client: u8,
    /// The number of the attempt.
    pub number: u8,
}

/// A request to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// `redlock_claim.lua`, with the proposed token.
    Claim(u8),
    /// `redlock_raise.lua`, to this token.
    Raise(u8),
    /// The renewal of the Redis engine.
    Renew,
    /// `redlock_heal.lua`, with the token of the grant.
    Heal(u8),
    /// `redlock_release.lua`.
    Release,
}

/// The reply of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// The key is the attempt's own, with this token.
    Ours(u8),
    /// Done, or done before.
    Done,
    /// The key belongs to another attempt, or does not exist.
    NotOurs,
}

impl Answer {
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }
}

/// The state of the lock on a master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Master {
    /// The holder, and when its key expires.
    pub key: Option<(Attempt, u8)>,
    /// The newest token.
    pub fence: u8,
    /// Whether its clock is far behind: then it rejects proposals as too far ahead.
    pub is_behind: bool,
}

impl Master {
    /// Executes one request.
    pub fn carry_out(&mut self, attempt: Attempt, request: Request, expires: u8) -> Answer {
        let is_ours = self.key.is_some_and(|(holder, _)| holder == attempt);
        match request {
            Request::Claim(proposed) if self.key.is_none() => {
                let proposed = if self.is_behind { 0 } else { proposed };
                self.key = Some((attempt, expires));
                self.fence = proposed.max(self.fence + 1);
                Answer::Ours(self.fence)
            }
            Request::Raise(token) if is_ours => {
                self.fence = self.fence.max(token);
                Answer::Ours(self.fence)
            }
            Request::Renew if is_ours => {
                self.key = Some((attempt, expires));
                Answer::Done
            }
            Request::Heal(token) if self.key.is_none() => {
                self.key = Some((attempt, expires));
                self.fence = self.fence.max(token);
                Answer::Done
            }
            Request::Release if is_ours => {
                self.key = None;
                Answer::Done
            }
            _ => Answer::NotOurs,
        }
    }

    /// Advances the time to `now`.
    pub fn reach(&mut self, now: u8) {
        self.key = self.key.filter(|(_, expires)| *expires > now);
    }
}
