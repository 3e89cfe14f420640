//! The number of requests. No other case may use the server meanwhile.

use std::sync::Arc;

use latchwork::engine::Engine;

use super::support::{LONG, granted, trying};
use crate::Fixture;

pub(super) async fn a_free_lock_costs_one_round_trip_and_so_does_its_release<F: Fixture>(fixture: Arc<F>) {
    let engine = fixture.engine().await;
    let warm = trying("c9", LONG);
    granted(&engine, &warm).await;
    engine.release(&warm).await.expect("answers");
    let count = || fixture.round_trips().expect("this engine counts");
    let before = count();
    let claim = trying("c9", LONG);
    granted(&engine, &claim).await;
    assert_eq!(count() - before, 1, "round trips of a claim");
    engine.release(&claim).await.expect("answers");
    assert_eq!(count() - before, 2, "round trips of a claim and its release");
}
