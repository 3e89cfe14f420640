//! One master: what the scripts `redlock_*.lua` do to one lock.

/// Which attempt of which client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// The client.
    pub client: u8,
    /// The how manieth.
    pub number: u8,
}

/// What a master is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// `redlock_claim.lua`, with the token that is proposed.
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

/// What it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// The key is ours, and this token stands beside it.
    Ours(u8),
    /// Done, or it was there.
    Done,
    /// The key is another's, or nobody's.
    NotOurs,
}

impl Answer {
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_))
    }
}

/// What a master knows of the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Master {
    /// Whose the key is, and when it expires.
    pub key: Option<(Attempt, u8)>,
    /// The newest token.
    pub fence: u8,
    /// Its clock is far behind: it takes no proposal that is ahead of it.
    pub is_behind: bool,
}

impl Master {
    /// Carries out one request.
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

    /// Its time has come to `now`.
    pub fn reach(&mut self, now: u8) {
        self.key = self.key.filter(|(_, expires)| *expires > now);
    }
}
