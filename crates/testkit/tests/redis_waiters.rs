//! The requests that waiting costs a Redis server.

use std::time::Duration;

use latchwork::engine::Filter;
use latchwork::{Client, connect};
use testkit::servers::{RedisOptions, RedisServer};

const LOCKS: usize = 50;

async fn client(server: &RedisServer) -> Client {
    connect(&format!("redis://{}", server.address())).await.expect("the server answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_for_many_locks_sends_one_heartbeat_per_second() {
    let server = RedisServer::start(RedisOptions::default());
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(holder.lock(format!("many/{number}")).acquire().await.expect("free"));
    }
    let waiting: Vec<_> = (0..LOCKS)
        .map(|number| {
            let lock = waiter.lock(format!("many/{number}"));
            tokio::spawn(async move { lock.acquire().await })
        })
        .collect();
    let all = Filter::Prefix("many/".into());
    let queued = async || {
        let locks = holder.inspect(&all).await.expect("answers");
        locks.iter().map(|lock| lock.waiters.len()).sum::<usize>()
    };
    while queued().await < LOCKS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The first waiters have their first heartbeat alone.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let before = server.calls(&["evalsha"]);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let beats = server.calls(&["evalsha"]) - before;
    println!("{beats} requests in 4 s for {LOCKS} waiting claims");
    assert!((3..=6).contains(&beats), "{beats} requests in 4 s");
    assert_eq!(queued().await, LOCKS, "no waiter lost its place");
    for guard in guards {
        guard.release().await.expect("held");
    }
    for waiting in waiting {
        waiting.await.expect("no panic").expect("its turn comes").release().await.expect("held");
    }
}
