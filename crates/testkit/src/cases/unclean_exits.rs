//! Processes that end, and clients that are dropped, without releasing their locks.

use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;

use super::support::LONG;
use crate::Fixture;
use crate::unclean_exit::{Ending, TTL};

/// The default of `Client::with_drop_timeout`.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn a_guard_dropped_at_the_end_of_a_process_leaves_nothing_held<F: Fixture>(fixture: Arc<F>) {
    let (client, url) = (fixture.client().await, fixture.url().expect("shared between processes"));
    let mut stuck = Vec::new();
    for ending in Ending::ALL {
        let lock = format!("ended-{ending:?}");
        ending.run(&url, &lock).await;
        let next = client.lock(&lock).ttl(TTL).try_acquire().await.expect("the engine answers");
        match next {
            Some(guard) => guard.release().await.expect("held"),
            None => stuck.push(ending),
        }
    }
    assert!(stuck.is_empty(), "still held after the process ended: {stuck:?}");
}

pub(super) async fn the_last_drop_of_a_client_and_its_guards_waits_once_for_a_dead_server<F: Fixture>(
    fixture: Arc<F>,
) {
    // If each lock needs a connection, the server has room for fewer.
    let count = if F::IS_A_CONNECTION { 20 } else { 100 };
    let client = fixture.client().await;
    let mut guards = Vec::new();
    for number in 0..count {
        let lock = client.lock(format!("dead-server-{number}")).ttl(LONG);
        guards.push(lock.acquire().await.expect("the lock is free"));
    }
    fixture.proxies().iter().for_each(|proxy| proxy.black_hole(true));
    let dropping = tokio::task::spawn_blocking(move || {
        let clock = Clock::boottime();
        let began = clock.now();
        drop(client);
        drop(guards);
        clock.now().since(began)
    });
    let took = dropping.await.expect("no panic");
    fixture.proxies().iter().for_each(|proxy| proxy.black_hole(false));
    assert!(took >= DROP_TIMEOUT, "the drop did not wait for the releases: {took:?}");
    assert!(took < 3 * DROP_TIMEOUT, "one bound for all guards, not for each: {took:?}");
}
