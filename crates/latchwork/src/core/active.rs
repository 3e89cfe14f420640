//! Which claims of one client are out on one name, and who may ask beside them.

use crate::engine::Mode;

/// What a claim of this client counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Exclusive, or a writer: nobody may hold beside it.
    Alone,
    /// A reader that does not hold yet.
    Asking,
    /// A reader that holds, or gives back.
    Reading,
    /// One of so many permits.
    Permit { of: u32 },
}

impl Part {
    /// A task that is about to ask.
    pub(crate) fn asking(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive | Mode::Write => Self::Alone,
            Mode::Read => Self::Asking,
            Mode::Permit { of } => Self::Permit { of },
        }
    }

    /// A claim that holds.
    pub(crate) fn holding(mode: Mode) -> Self {
        match Self::asking(mode) {
            Self::Asking => Self::Reading,
            other => other,
        }
    }
}

/// The claims of one client that are out on one name: asked for, held, or being given back. The engine says who holds;
/// this only says for whom it is worth asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Active {
    alone: u32,
    asking: u32,
    reading: u32,
    permits: u32,
    /// The number that the first of these permits named.
    of: u32,
}

impl Active {
    pub(crate) fn is_empty(&self) -> bool {
        self.alone + self.asking + self.reading + self.permits == 0
    }

    pub(crate) fn add(&mut self, part: Part) {
        if let Part::Permit { of } = part
            && self.permits == 0
        {
            self.of = of;
        }
        *self.count(part) += 1;
    }

    pub(crate) fn remove(&mut self, part: Part) {
        let count = self.count(part);
        *count = count.saturating_sub(1);
    }

    fn count(&mut self, part: Part) -> &mut u32 {
        match part {
            Part::Alone => &mut self.alone,
            Part::Asking => &mut self.asking,
            Part::Reading => &mut self.reading,
            Part::Permit { .. } => &mut self.permits,
        }
    }

    /// Whether some of this client read.
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

    /// Whether nobody of this client stands in a reader's way.
    fn lets_read(&self) -> bool {
        self.alone + self.permits == 0
    }

    /// Whether all that is out was granted to readers: whoever comes now overtakes nobody by reading too.
    pub(crate) fn is_only_read(&self) -> bool {
        self.is_read() && self.lets_read() && self.asking == 0
    }

    /// Whether another task may ask now. A writer asks while others read, so that readers elsewhere let it pass; and a wrong
    /// number of permits is for the engine to refuse.
    pub(crate) fn admits(&self, mode: Mode) -> bool {
        match mode {
            _ if self.is_empty() => true,
            Mode::Exclusive | Mode::Write | Mode::Read => self.is_only_read(),
            Mode::Permit { of } => {
                self.alone + self.asking + self.reading == 0 && (of != self.of || self.permits < of)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Mode = Mode::Permit { of: 3 };

    fn out(parts: &[Part]) -> Active {
        let mut active = Active::default();
        parts.iter().for_each(|part| active.add(*part));
        active
    }

    #[test]
    fn one_claim_at_a_time_asks_for_what_one_can_hold() {
        for mode in [Mode::Exclusive, Mode::Write, Mode::Read, THREE] {
            assert!(out(&[]).admits(mode));
            assert!(!out(&[Part::Alone]).admits(mode));
            assert!(!out(&[Part::Asking]).admits(mode));
            assert_eq!(out(&[Part::Reading]).admits(mode), mode != THREE);
            assert!(!out(&[Part::Reading, Part::Alone]).admits(mode), "a writer asks already");
        }
    }

    #[test]
    fn as_many_ask_for_permits_as_there_are() {
        let permit = Part::Permit { of: 3 };
        assert!(out(&[permit, permit]).admits(THREE));
        assert!(!out(&[permit, permit, permit]).admits(THREE));
        assert!(out(&[permit, permit, permit]).admits(Mode::Permit { of: 4 }), "the engine has to refuse it");
        assert!(!out(&[permit]).admits(Mode::Exclusive));
        let mut active = out(&[permit, permit]);
        [permit, permit].into_iter().for_each(|part| active.remove(part));
        assert!(active.is_empty());
    }
}
