//! The end of a claim, after which the name is open again.

use std::sync::Arc;

use super::local::hand_duty;
use super::shield::Shield;
use super::{Core, janitor};
use crate::engine::{Claim, Released};
use crate::{LockName, Result};

/// Opens the name for the next local claim when dropped: only after the release was answered or given up (C10).
pub(crate) struct Finish {
    core: Arc<Core>,
    name: LockName,
}

impl Finish {
    pub(crate) fn new(core: Arc<Core>, name: LockName) -> Self {
        Self { core, name }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Releases inline, within the limit of a request; an unanswered release is repeated in the background.
    pub(crate) fn release(self, claim: Arc<Claim>) -> Shield<Result<Released>> {
        let core = self.core.clone();
        Shield::new(&core, async move {
            let answer = self.core.answer(self.core.engine.clone().release(claim.clone())).await;
            if answer.is_err() {
                self.release_in_background(claim);
            }
            answer
        })
    }

    pub(crate) fn release_in_background(self, claim: Arc<Claim>) {
        self.core.clone().background.spawn(janitor::give_back(self, claim));
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        hand_duty(&self.core, &self.name, None);
    }
}
