//! The janitor gives back what could not be given back at once.

use std::sync::Arc;

use super::defaults;
use super::finish::Finish;
use crate::clock::Moment;
use crate::engine::{Claim, Lifetime};

/// Repeats a release until it is answered, or until the lease is over by itself. `finish` opens the name then.
pub(crate) async fn give_back(finish: Finish, claim: Arc<Claim>) {
    let core = finish.core();
    let lease_over = match claim.lifetime {
        Lifetime::Lease => core.clock.now().after(claim.ttl),
        Lifetime::Session => Moment::NEVER,
    };
    let mut pause = defaults::JANITOR_FIRST_PAUSE;
    while core.answer(core.engine.clone().release(claim.clone())).await.is_err() {
        let again = core.clock.now().after(pause);
        if again >= lease_over {
            break;
        }
        core.clock.sleep_until(again).await;
        pause = (pause * 2).min(defaults::JANITOR_LONGEST_PAUSE);
    }
}
