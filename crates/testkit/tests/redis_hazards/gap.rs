//! `handover=wake`: for a fleet that migrates to us from a client that polls, a released lock stays free for
//! a while.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::{Engine, Released, Wake};

use super::claims::{busy, granted, granted_soon, trying, waiting};
use super::harness::{HazardHarness, LOCK, LONG, SOON};

/// Long enough to be distinguished from no gap at all.
const GAP: Duration = Duration::from_millis(400);

#[tokio::test]
async fn the_first_waiter_is_woken_and_takes_the_lock_when_the_gap_is_over() {
    let harness = HazardHarness::new();
    let options = format!("handover=wake&gap={}ms", GAP.as_millis());
    let [holder, waiter, late] =
        [harness.engine(&options).await, harness.engine(&options).await, harness.engine(&options).await];
    let (claim, first) = (trying(LONG), waiting(LONG));
    granted(&holder, &claim).await;
    let state = busy(&waiter, &first).await;
    let released = Clock::boottime().now();
    assert_eq!(holder.release(&claim).await.expect("it answers"), Released::Freed);
    let wake = tokio::time::timeout(SOON, waiter.wait(&first, &state)).await.expect("the waiter is woken");
    assert_eq!(wake.expect("the waiter is subscribed"), Wake::Recheck, "woken, and nothing more");
    let again_in = busy(&waiter, &first).await.again_in;
    assert!(again_in <= GAP + Duration::from_millis(1), "it comes back when the gap is over: {again_in:?}");
    busy(&late, &trying(LONG)).await;
    assert_eq!(harness.value(LOCK), None, "free, for others");
    granted_soon(&waiter, &first).await;
    assert!(Clock::boottime().now().since(released) >= GAP - Duration::from_millis(1), "not before");
}

/// The others have had their turn: a longer gap would leave the lock to them for good.
#[tokio::test]
async fn the_gap_ends_when_another_program_has_had_its_turn() {
    let harness = HazardHarness::new();
    let [holder, waiter] =
        [harness.engine("handover=wake&gap=1h").await, harness.engine("handover=wake&gap=1h").await];
    let (claim, first, mut foreign) = (trying(LONG), waiting(LONG), harness.naive());
    granted(&holder, &claim).await;
    busy(&waiter, &first).await;
    assert_eq!(holder.release(&claim).await.expect("it answers"), Released::Freed);
    busy(&waiter, &first).await;
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000));
    busy(&waiter, &first).await;
    assert!(foreign.del(LOCK));
    granted(&waiter, &first).await;
}

/// In the middle of a gap, and behind a holder that announces nothing: the server notifies of both changes.
#[tokio::test]
async fn the_first_waiter_is_notified_of_the_actions_of_other_programs() {
    let harness = HazardHarness::new();
    let [holder, waiter] =
        [harness.engine("handover=wake&gap=1h").await, harness.engine("handover=wake&gap=1h").await];
    let (claim, first, mut foreign) = (trying(LONG), waiting(LONG), harness.naive());
    granted(&holder, &claim).await;
    busy(&waiter, &first).await;
    assert_eq!(holder.release(&claim).await.expect("it answers"), Released::Freed);
    let woken = async |state| {
        let wake = tokio::time::timeout(SOON, waiter.wait(&first, &state)).await.expect("it is told");
        assert_eq!(wake.expect("the waiter is subscribed"), Wake::Recheck);
    };
    // The wake-up of the release itself.
    woken(busy(&waiter, &first).await).await;
    let state = busy(&waiter, &first).await;
    let nothing = tokio::time::timeout(GAP, waiter.wait(&first, &state)).await;
    assert!(nothing.is_err(), "nothing happens");
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000));
    woken(state).await;
    let state = busy(&waiter, &first).await;
    assert!(foreign.del(LOCK));
    woken(state).await;
    granted(&waiter, &first).await;
}
