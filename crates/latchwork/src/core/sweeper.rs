//! Finds tasks that nobody runs, and lets others of the client go on without them.
//!
//! A task whose turn has come may be on a runtime that nobody drives, or behind code that blocks its thread. Its turn is
//! taken back if it is not taken up, and a claim or release that it has under way is taken over from it: the request is
//! dropped, the claim is released from the client's own thread, and the next task asks anew. A task that is run again
//! finds its request gone, sends nothing more for that claim, and stands in the queue again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Core;
use super::finish::Finish;
use super::local::Untended;
use crate::clock::Clock;
use crate::locked::locked;

/// How often it looks around while tasks of this client wait for each other. A turn is taken back at the second look, a
/// duty at the third.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts looking around unless that goes on. It ends by itself once nobody waits.
pub(super) fn start(core: &Arc<Core>) {
    // On tokio's clock there is no thread to do it.
    if !core.clock.lives_in_the_runtime() && core.background.begin_sweeping() {
        core.background.spawn_unawaited(sweep(Running(Arc::downgrade(core)), core.clock));
    }
}

async fn sweep(mut running: Running, clock: Clock) {
    loop {
        clock.sleep_until(clock.now().after(INTERVAL)).await;
        let Some(core) = running.0.upgrade() else { return };
        if !look_around(&core) {
            core.background.end_sweeping();
            // A task that came in between found the sweeper running.
            if !is_contended(&core) || !core.background.begin_sweeping() {
                running.0 = Weak::new();
                return;
            }
        }
    }
}

/// Its drop, also unrun, with its runtime or by a panic, says that no sweeper runs. Weak: it must not keep the client open.
struct Running(Weak<Core>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.background.end_sweeping();
        }
    }
}

/// Whether somebody waits.
fn look_around(core: &Arc<Core>) -> bool {
    let mut untended = Untended::default();
    for shard in core.local.shards() {
        locked(shard).look_around(&mut untended);
    }
    // With no shard locked: a turn that is dropped goes to the next, and a task that is woken may do anything.
    drop(untended.turns);
    for duty in untended.duties.into_iter().filter(|duty| duty.take_over()) {
        let claim = duty.claim.clone();
        // Its last request may be carried out at any time.
        let strays = Some(core.clock.now().after(claim.ttl));
        Finish::new(core.clone(), claim.name.clone(), duty.part, strays).release_in_background(claim);
    }
    untended.is_contended
}

fn is_contended(core: &Core) -> bool {
    core.local.shards().iter().any(|shard| locked(shard).is_contended())
}
