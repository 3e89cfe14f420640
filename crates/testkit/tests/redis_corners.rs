//! Corner cases of the Redis queue: leases of different lengths, clocks that go back, claims that are
//! revoked, runtimes that stall.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use latchwork::engine::{Claim, Engine, Filter, Mode, Released, Revoke, Revoked, Verdict, Wake};
use latchwork::engines::Redis;
use latchwork::{Client, LockName, Loss, connect};
use testkit::servers::{RedisOptions, RedisServer};
use testkit::shim::Clocks;

const LOCK: &str = "corner";
const LONG: Duration = Duration::from_secs(20);

fn claim(ttl: Duration) -> Claim {
    let mut claim = Claim::new(LockName::new(LOCK).expect("a good name"), ttl);
    claim.wait_lease = ttl.min(Duration::from_secs(3));
    claim
}

async fn engine(server: &RedisServer, options: &str) -> Redis {
    let url = format!("redis://{}?{options}", server.address()).parse().expect("a URL");
    Redis::connect(&url).await.expect("the server answers")
}

async fn client(server: &RedisServer) -> Client {
    connect(&format!("redis://{}", server.address())).await.expect("the server answers")
}

async fn is_granted(engine: &Redis, claim: &Claim) -> bool {
    matches!(engine.claim(claim).await.expect("it answers"), Verdict::Granted(_))
}

fn waiting(server: &RedisServer) -> i64 {
    server.command(&["ZCARD", "{corner}:latchwork1:q"]).integer()
}

#[tokio::test]
async fn a_waiter_with_a_short_lease_does_not_shorten_the_queue_entries_of_others() {
    let server = RedisServer::start(RedisOptions::default());
    let engine = engine(&server, "").await;
    let (holder, patient, hasty) = (claim(LONG), claim(LONG), claim(Duration::from_millis(100)));
    assert!(is_granted(&engine, &holder).await);
    assert!(!is_granted(&engine, &patient).await && !is_granted(&engine, &hasty).await);
    engine.release(&hasty).await.expect("it answers");
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(waiting(&server), 1, "it waits for seconds without a heartbeat");
}

#[tokio::test]
async fn waiters_are_served_by_arrival_when_the_clock_was_set_back() {
    let clocks = Clocks::new();
    let server = RedisServer::start(RedisOptions { clocks: Some(&clocks), ..RedisOptions::default() });
    let engine = engine(&server, "").await;
    let (holder, first, second) = (claim(LONG), claim(LONG), claim(LONG));
    assert!(is_granted(&engine, &holder).await);
    assert!(!is_granted(&engine, &first).await);
    clocks.move_wall(-3_600_000);
    assert!(!is_granted(&engine, &second).await);
    engine.release(&holder).await.expect("it answers");
    assert!(is_granted(&engine, &first).await, "the waiter came first");
    let left = server.command(&["PTTL", LOCK]).integer();
    assert!(left <= 60_000, "a lease of {left} ms");
}

#[tokio::test]
async fn a_gap_ends_when_the_clock_was_set_back() {
    let clocks = Clocks::new();
    let server = RedisServer::start(RedisOptions { clocks: Some(&clocks), ..RedisOptions::default() });
    let engine = engine(&server, "handover=wake&gap=5s").await;
    let (holder, waiter) = (claim(LONG), claim(LONG));
    assert!(is_granted(&engine, &holder).await);
    assert!(!is_granted(&engine, &waiter).await);
    engine.release(&holder).await.expect("it answers");
    assert!(!is_granted(&engine, &waiter).await, "the gap lasts");
    let time = || server.command(&["TIME"]).array()[0].text().parse::<u64>().expect("seconds");
    let before = time();
    clocks.move_wall(-3_600_000);
    // A newer server reads the clock only now and then.
    while time() + 3_000 > before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_granted(&engine, &waiter).await, "it is not an hour long");
}

#[tokio::test]
async fn a_claim_that_is_revoked_twice_reports_it_and_is_not_handed_its_own_release() {
    let server = RedisServer::start(RedisOptions::default());
    let engine = engine(&server, "").await;
    let holder = std::sync::Arc::new(claim(LONG));
    assert!(is_granted(&engine, &holder).await);
    for _ in 0..2 {
        let state = engine.inspect(&Filter::Name(holder.name.clone())).await.expect("it answers").remove(0);
        assert_eq!(engine.revoke(&state, Revoke::AtLeaseEnd).await.expect("it answers"), Revoked::Done);
    }
    let renewal = engine.renew(std::slice::from_ref(&holder)).await.remove(0).expect("it answers");
    assert_eq!(renewal, latchwork::engine::Renewal::Lost(Loss::Revoked));
    assert!(!is_granted(&engine, &holder).await, "after another claim it is in the queue");
    assert_eq!(engine.release(&holder).await.expect("it answers"), Released::Freed);
    assert_eq!(server.command(&["EXISTS", LOCK]).integer(), 0, "it is free");
    assert!(is_granted(&engine, &claim(LONG)).await);
}

#[tokio::test]
async fn a_holder_that_claims_again_on_a_full_server_leaves_the_queue_unchanged() {
    let server = RedisServer::start(RedisOptions::default());
    let engine = engine(&server, "").await;
    let (mut holder, waiter) = (claim(LONG), claim(LONG));
    holder.wait_lease = Duration::ZERO;
    assert!(is_granted(&engine, &holder).await);
    assert!(!is_granted(&engine, &waiter).await);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(is_granted(&engine, &holder).await, "the reply may have been lost");
    assert_eq!(waiting(&server), 1);
    let busy = match engine.claim(&waiter).await.expect("waiting needs no memory") {
        Verdict::Busy(busy) => busy,
        Verdict::Granted(_) => panic!("it is held"),
    };
    engine.release(&holder).await.expect("it answers");
    assert!(matches!(engine.wait(&waiter, &busy).await.expect("the waiter is subscribed"), Wake::Granted(_)));
}

/// The first waiter whose heartbeat is due also sends those of others. If its runtime stalls, the others must
/// not wait for it.
#[test]
fn a_stalled_runtime_delays_no_waiter_on_another_runtime() {
    let server = RedisServer::start(RedisOptions::default());
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let here = build().expect("a runtime");
    let (shared, holder) = here.block_on(async { (client(&server).await, client(&server).await) });
    let mut guards = Vec::new();
    for number in 0..12 {
        guards.push(here.block_on(holder.lock(format!("still/{number}")).acquire()).expect("free"));
    }
    let elsewhere = shared.clone();
    let still = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            for number in 2..12 {
                let lock = elsewhere.lock(format!("still/{number}"));
                tokio::spawn(async move { drop(lock.acquire().await) });
            }
            // Long enough for several heartbeats; then the runtime stalls at some point of one, again and
            // again.
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_micros(300)).await;
                std::thread::sleep(Duration::from_millis(900));
            }
        });
        runtime
    });
    here.block_on(async {
        let served = (0..2).map(|number| {
            let lock = shared.lock(format!("still/{number}"));
            tokio::spawn(async move { lock.acquire().await.expect("its turn comes") })
        });
        let served: Vec<_> = served.collect();
        tokio::time::sleep(Duration::from_secs(3)).await;
        for guard in guards.drain(..2) {
            guard.release().await.expect("held");
        }
        for served in served {
            let guard =
                tokio::time::timeout(Duration::from_millis(1_500), served).await.expect("told at once");
            guard.expect("no panic").release().await.expect("held");
        }
    });
    still.join().expect("no panic").shutdown_background();
}

/// An abandoned request made the client retire the connection before this claim was subscribed to
/// notifications.
#[tokio::test]
async fn a_claim_that_was_queued_over_a_retired_connection_claims_again() {
    let server = RedisServer::start(RedisOptions::default());
    let (other, engine) = (engine(&server, "").await, engine(&server, "").await);
    let (holder, warm, mut reader) = (claim(LONG), claim(LONG), claim(LONG));
    assert!(is_granted(&engine, &warm).await, "the client is subscribed from now on");
    engine.release(&warm).await.expect("it answers");
    assert!(is_granted(&other, &holder).await);
    reader.mode = Mode::Read;
    let mut asking = pin!(engine.claim(&reader));
    assert!(begin(asking.as_mut()).await, "it learns the scripts of readers first");
    assert!(begin(pin!(engine.release(&warm))).await, "no server can have answered");
    let Ok(Verdict::Busy(busy)) = asking.await else { panic!("it is held") };
    let told = tokio::time::timeout(Duration::from_secs(5), engine.wait(&reader, &busy)).await;
    assert!(matches!(told, Ok(Ok(Wake::Recheck))), "{told:?}");
    assert!(!is_granted(&engine, &reader).await);
    other.release(&holder).await.expect("it answers");
    let told = tokio::time::timeout(Duration::from_secs(5), engine.wait(&reader, &busy)).await;
    assert!(matches!(told, Ok(Ok(Wake::Granted(_)))), "{told:?}");
}

/// Polls the future once. True if it is still pending.
async fn begin(future: Pin<&mut impl Future>) -> bool {
    let mut future = Some(future);
    poll_fn(|context| Poll::Ready(future.take().expect("once").poll(context).is_pending())).await
}
