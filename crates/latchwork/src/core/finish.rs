//! The end of a claim, after which the name is open again.

use std::sync::Arc;

use super::local::hand_duty;
use super::shield::Shield;
use super::ticket::{Inherited, Strays};
use super::{Core, janitor};
use crate::clock::Moment;
use crate::engine::{Claim, Released};
use crate::{LockName, Result};

/// Opens the name for the next local claim when dropped: only after the release was answered or given up (C10).
pub(crate) struct Finish {
    core: Arc<Core>,
    name: LockName,
    strays: Strays,
}

impl Finish {
    pub(crate) fn new(core: Arc<Core>, name: LockName, strays: Strays) -> Self {
        Self { core, name, strays }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Releases inline, within the limit of a request; an unanswered release is repeated in the background.
    pub(crate) fn release(self, claim: Arc<Claim>) -> Shield<Result<Released>> {
        let core = self.core.clone();
        Shield::new(&core, async move {
            let answer = self.core.answer(self.core.engine.clone().release(claim.clone())).await;
            match (&answer, self.strays) {
                (Err(_), _) => self.release_in_background(claim),
                (Ok(_), Some(until)) => self.release_strays(claim, until),
                (Ok(_), None) => {}
            }
            answer
        })
    }

    /// The name is open, but a request of the claim may still arrive and take the lock for nobody.
    pub(crate) fn release_strays(self, claim: Arc<Claim>, until: Moment) {
        let Self { core, .. } = &self;
        let work = janitor::release_strays(Arc::downgrade(core), core.clock, claim, until);
        core.background.spawn_unawaited(work);
    }

    pub(crate) fn strays(&self) -> Strays {
        self.strays
    }

    pub(crate) fn release_in_background(self, claim: Arc<Claim>) {
        self.core.clone().background.spawn(janitor::give_back(self, claim));
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        hand_duty(&self.core, &self.name, Inherited::default());
    }
}
