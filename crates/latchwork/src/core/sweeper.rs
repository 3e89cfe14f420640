//! Finds tasks that are not polled any more, and lets other tasks of the client go on without them.
//!
//! A task whose turn has come may be on a runtime that is not driven, or behind code that blocks its thread.
//! If it does not take its turn, the turn is taken back. A claim or release that it has in flight is taken
//! over: the request is dropped, the claim is released from the client's own thread, and the next task sends
//! a claim of its own. When the task runs again, it finds its request gone, sends nothing more for that
//! claim, and queues again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Core;
use super::finish::Finish;
use super::local::Untended;
use crate::clock::Clock;
use crate::poison::lock_ignoring_poison;

/// The interval between checks while tasks of this client need locks that others of them keep. A turn is
/// taken back at the second check, a duty at the third.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts the sweeper unless it runs. It ends by itself once there is nothing to check.
pub(super) fn start(core: &Arc<Core>) {
    // On tokio's clock there is no thread to run it.
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
            // A task that started to wait in between saw the sweeper running.
            if !is_contended(&core) || !core.background.begin_sweeping() {
                running.0 = Weak::new();
                return;
            }
        }
    }
}

/// Its drop marks the sweeper as stopped, even if the task never ran, its runtime ended, or it panicked.
/// Weak: the sweeper must not keep the client open.
struct Running(Weak<Core>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.background.end_sweeping();
        }
    }
}

/// Checks every shard. Returns whether there is anything to check again.
fn look_around(core: &Arc<Core>) -> bool {
    let mut untended = Untended::default();
    for shard in core.local.shards() {
        lock_ignoring_poison(shard).look_around(&mut untended);
    }
    // With no shard locked: a dropped turn goes to the next task, and a woken task may run any code.
    drop(untended.turns);
    for duty in untended.duties.into_iter().filter(|duty| duty.take_over()) {
        let claim = duty.claim.clone();
        // The server may still carry out its last request at any time.
        let strays = Some(core.clock.now().after(claim.ttl));
        let finish = Finish::new(core.clone(), claim.name.clone(), duty.part, strays);
        finish.with_pending(duty.pending_release()).release_in_background(claim);
    }
    untended.is_contended
}

fn is_contended(core: &Core) -> bool {
    core.local.shards().iter().any(|shard| lock_ignoring_poison(shard).is_contended())
}
