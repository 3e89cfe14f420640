//! The outstanding claims of one client on one name, and the modes that may be requested beside them.

use crate::engine::Mode;

/// How a claim of this client counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimRole {
    /// Exclusive, or a writer: no other claim may be held beside it.
    Exclusive,
    /// A reader that does not hold yet.
    RequestingRead,
    /// A reader that holds, or releases.
    Reading,
    /// One of `of` permits.
    Permit { of: u32 },
}

impl ClaimRole {
    /// The role of a claim that is about to be sent.
    pub(crate) fn requesting(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive | Mode::Write => Self::Exclusive,
            Mode::Read => Self::RequestingRead,
            Mode::Permit { of } => Self::Permit { of },
        }
    }

    /// The role of a claim that is held.
    pub(crate) fn holding(mode: Mode) -> Self {
        match Self::requesting(mode) {
            Self::RequestingRead => Self::Reading,
            other => other,
        }
    }
}

/// The claims of one client on one name that are requested, held, or being released. The engine decides which
/// claim is granted; these counts only decide which claims are worth sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    exclusive: u32,
    requesting_reads: u32,
    reading: u32,
    permits: u32,
    /// The number of permits that the first of these claims named.
    of: u32,
}

impl Outstanding {
    pub(crate) fn is_empty(&self) -> bool {
        self.exclusive + self.requesting_reads + self.reading + self.permits == 0
    }

    pub(crate) fn add(&mut self, role: ClaimRole) {
        if let ClaimRole::Permit { of } = role
            && self.permits == 0
        {
            self.of = of;
        }
        *self.count(role) += 1;
    }

    pub(crate) fn remove(&mut self, role: ClaimRole) {
        let count = self.count(role);
        *count = count.saturating_sub(1);
    }

    fn count(&mut self, role: ClaimRole) -> &mut u32 {
        match role {
            ClaimRole::Exclusive => &mut self.exclusive,
            ClaimRole::RequestingRead => &mut self.requesting_reads,
            ClaimRole::Reading => &mut self.reading,
            ClaimRole::Permit { .. } => &mut self.permits,
        }
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [u32; 4] {
        [self.exclusive, self.requesting_reads, self.reading, self.permits]
    }

    /// Whether readers of this client hold, or release.
    pub(crate) fn is_read(&self) -> bool {
        self.reading > 0
    }

    /// Whether a task that does not wait may ask now. It does not wait for readers of this client.
    pub(crate) fn admits_try(&self, mode: Mode) -> bool {
        match mode {
            Mode::Read => self.lets_read(),
            _ => !self.is_read() && self.admits(mode),
        }
    }

    /// Whether no claim of this client is in a reader's way.
    fn lets_read(&self) -> bool {
        self.exclusive + self.permits == 0
    }

    /// Whether all outstanding claims were granted to readers. Another reader then overtakes no task.
    pub(crate) fn is_only_read(&self) -> bool {
        self.is_read() && self.lets_read() && self.requesting_reads == 0
    }

    /// Whether another task may ask now. A writer asks while others read, so that readers of other clients
    /// let it pass. A wrong number of permits is left to the engine to refuse.
    pub(crate) fn admits(&self, mode: Mode) -> bool {
        match mode {
            _ if self.is_empty() => true,
            Mode::Exclusive | Mode::Write | Mode::Read => self.is_only_read(),
            Mode::Permit { of } => {
                self.exclusive + self.requesting_reads + self.reading == 0
                    && (of != self.of || self.permits < of)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Mode = Mode::Permit { of: 3 };

    fn out(roles: &[ClaimRole]) -> Outstanding {
        let mut outstanding = Outstanding::default();
        roles.iter().for_each(|role| outstanding.add(*role));
        outstanding
    }

    #[test]
    fn one_claim_at_a_time_asks_for_what_one_can_hold() {
        for mode in [Mode::Exclusive, Mode::Write, Mode::Read, THREE] {
            assert!(out(&[]).admits(mode));
            assert!(!out(&[ClaimRole::Exclusive]).admits(mode));
            assert!(!out(&[ClaimRole::RequestingRead]).admits(mode));
            assert_eq!(out(&[ClaimRole::Reading]).admits(mode), mode != THREE);
            assert!(!out(&[ClaimRole::Reading, ClaimRole::Exclusive]).admits(mode), "a writer asks already");
        }
    }

    #[test]
    fn as_many_ask_for_permits_as_there_are() {
        let permit = ClaimRole::Permit { of: 3 };
        assert!(out(&[permit, permit]).admits(THREE));
        assert!(!out(&[permit, permit, permit]).admits(THREE));
        assert!(out(&[permit, permit, permit]).admits(Mode::Permit { of: 4 }), "the engine has to refuse it");
        assert!(!out(&[permit]).admits(Mode::Exclusive));
        let mut outstanding = out(&[permit, permit]);
        [permit, permit].into_iter().for_each(|role| outstanding.remove(role));
        assert!(outstanding.is_empty());
    }
}
