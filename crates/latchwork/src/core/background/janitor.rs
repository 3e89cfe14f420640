//! The janitor repeats releases that were not answered.

use std::sync::{Arc, Weak};

use super::release::ReleasePending;
use crate::clock::{Clock, Moment};
use crate::core::queue::PendingRelease;
use crate::core::{Core, defaults};
use crate::engine::{Claim, Released};

/// Repeats a release until it is answered, or until the lease ends by itself. The drop of `release` opens the
/// name then. `is_first`: the release was not sent before. A task that needs the lock ends the pause between
/// two requests.
pub(super) async fn retry_release(
    release: ReleasePending,
    pending: Arc<PendingRelease>,
    claim: Arc<Claim>,
    mut is_first: bool,
) {
    let core = release.core().clone();
    let lease_over = claim.lease_over(core.clock.now());
    let mut pause = defaults::JANITOR_FIRST_PAUSE;
    loop {
        pending.sending();
        let released = core.answer(core.engine.clone().release(claim.clone()), core.clock.now()).await;
        let Err(failure) = released else { break };
        pending.failed(&failure);
        let again = core.clock.now().after(pause);
        if again >= lease_over {
            return core.telemetry.release_retried(&claim, "gave_up");
        }
        let _ = core.until(again, pending.retry_requested()).await;
        pause = (pause * 2).min(defaults::JANITOR_LONGEST_PAUSE);
        is_first = false;
    }
    if !is_first {
        core.telemetry.release_retried(&claim, "released");
    }
    if let Some(until) = release.strays() {
        release.release_strays(claim, until);
    }
}

/// Repeats the release of a claim with growing pauses, and once more at `until`: a claim request without a
/// reply may arrive after the first release. No task waits for this one, and it does not keep its client
/// open.
pub(super) async fn release_strays(core: Weak<Core>, clock: Clock, claim: Arc<Claim>, until: Moment) {
    let mut pause = defaults::JANITOR_FIRST_PAUSE;
    loop {
        let again = clock.now().after(pause).min(until);
        clock.sleep_until(again).await;
        let Some(core) = core.upgrade() else { return };
        if let Ok(Released::Freed) =
            core.answer(core.engine.clone().release(claim.clone()), core.clock.now()).await
        {
            core.telemetry.release_retried(&claim, "stray");
        }
        if again >= until {
            return;
        }
        pause *= 2;
    }
}
