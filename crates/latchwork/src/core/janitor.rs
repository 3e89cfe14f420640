//! The janitor gives back what could not be given back at once.

use std::sync::Arc;

use super::defaults;
use super::finish::Finish;
use crate::engine::Claim;

/// Repeats a release until it is answered, or until the lease is over by itself. `finish` opens the name then.
pub(crate) async fn give_back(finish: Finish, claim: Arc<Claim>) {
    let core = finish.core();
    let lease_over = core.clock.now().after(claim.ttl);
    let mut pause = defaults::JANITOR_FIRST_PAUSE;
    while core.engine.clone().release(claim.clone()).await.is_err() {
        let again = core.clock.now().after(pause);
        if again >= lease_over {
            break;
        }
        core.clock.sleep_until(again).await;
        pause = (pause * 2).min(defaults::JANITOR_LONGEST_PAUSE);
    }
}
