//! Finds tasks that are not polled any more, and lets other tasks of the client go on without them.
//!
//! A task whose turn has come may be on a runtime that is not driven, or behind code that blocks its thread.
//! If it does not take its turn, the turn is taken back. A claim or release that it has in flight is taken
//! over: the request is dropped, the claim is released from the client's own thread, and the next task sends
//! a claim of its own. When the task runs again, it finds its request gone, sends nothing more for that
//! claim, and queues again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::release::{ReleasePending, hand_back};
use crate::clock::Clock;
use crate::core::Core;
use crate::core::queue::Turn;

/// The interval between checks while tasks of this client need locks that other tasks of it keep. A turn is
/// taken back at the second check, a request at the third.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts the sweeper unless it runs. It ends by itself once there is nothing to check.
pub(in crate::core) fn start(core: &Arc<Core>) {
    // On tokio's clock there is no thread to run it.
    if !core.clock.lives_in_the_runtime() && core.background.begin_sweeping() {
        core.background.spawn_unawaited(run(Sweeping(Arc::downgrade(core)), core.clock));
    }
}

async fn run(mut sweeping: Sweeping, clock: Clock) {
    loop {
        clock.sleep_until(clock.now().after(INTERVAL)).await;
        let Some(core) = sweeping.0.upgrade() else { return };
        if !sweep(&core) {
            core.background.end_sweeping();
            // A task that started to wait in between saw the sweeper running.
            if !core.queues.is_contended() || !core.background.begin_sweeping() {
                sweeping.0 = Weak::new();
                return;
            }
        }
    }
}

/// Its drop marks the sweeper as stopped, even if the task never ran, its runtime ended, or it panicked.
/// Weak: the sweeper must not keep the client open.
struct Sweeping(Weak<Core>);

impl Drop for Sweeping {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.background.end_sweeping();
        }
    }
}

/// Checks the queue of every name. Returns whether there is anything to check again.
fn sweep(core: &Arc<Core>) -> bool {
    let untended = core.queues.sweep();
    for (name, turn) in untended.turns {
        match turn {
            Turn::Drive(right) => hand_back(core, &name, right),
            // Its drop passes the lock to the next task.
            Turn::Pass(held) => drop(held),
        }
    }
    for request in untended.requests.into_iter().filter(|request| request.take_over()) {
        let claim = request.claim.clone();
        // The server may still carry out its last request at any time.
        let strays = Some(core.clock.now().after(claim.ttl));
        let release = ReleasePending::new(core.clone(), claim.name.clone(), request.role, strays);
        release.with_pending(request.pending_release()).release_in_background(claim);
    }
    untended.is_contended
}
