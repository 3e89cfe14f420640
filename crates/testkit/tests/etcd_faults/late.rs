//! Abandoned requests that the server still executes.

use std::time::Duration;

use latchwork::engine::Mode;
use testkit::history::Fault;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::harness::{EtcdHarness, SOON, now, pause, take, wait_for_renewal};

/// The client keeps its lease alive for a lock that it holds all the time.
const TTL: Duration = Duration::from_secs(2);
/// A request with this delay is abandoned (after 3 s), its claim is released, and a ttl has passed since.
const LATE: Duration = Duration::from_millis(6_500);

/// The ways to claim a lock and give up.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Try,
    ShortWait,
    Cancelled,
    Read,
    Permit,
    Campaign,
}

const ALL: [Ask; 6] = [Ask::Try, Ask::ShortWait, Ask::Cancelled, Ask::Read, Ask::Permit, Ask::Campaign];

fn name(ask: Ask) -> String {
    format!("late/{ask:?}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_arrives_after_its_release_was_answered_takes_nothing() {
    let harness = EtcdHarness::one();
    let (proxy, direct) = (harness.proxy().address(), harness.servers.address());
    // Claims go through the proxy. Renewals and retries do not.
    let client = harness.connect(&format!("etcd://{proxy},{direct},{direct}")).await;
    let other = harness.direct_client().await;
    let kept = take(&client.lock("kept").ttl(TTL)).await;
    wait_for_renewal(&kept).await;
    harness.recorder.fault_began(Fault::Partition);
    let arrives = now().after(LATE);
    harness.proxy().delay(LATE);
    let mut asking = JoinSet::new();
    for ask in ALL {
        let (client, name) = (client.clone(), name(ask));
        asking.spawn(async move {
            let lock = client.lock(&name).ttl(TTL);
            let shared = |mode| client.shared_lock(&name, mode).ttl(TTL);
            let guard = match ask {
                Ask::Try => lock.try_acquire().await.ok().flatten(),
                Ask::ShortWait => lock.wait(Duration::from_millis(300)).acquire().await.ok(),
                Ask::Cancelled => {
                    timeout(Duration::from_millis(300), lock.acquire()).await.ok().and_then(Result::ok)
                }
                Ask::Read => shared(Mode::Read).try_acquire().await.ok().flatten(),
                Ask::Permit => shared(Mode::Permit { of: 2 }).wait(TTL).acquire().await.ok(),
                Ask::Campaign => client.election(&name).ttl(TTL).campaign("late").await.ok(),
            };
            if let Some(guard) = guard {
                guard.release().await.expect("held");
            }
        });
    }
    while let Some(asked) = asking.join_next().await {
        asked.expect("no panic");
    }
    // Each put arrives alone: the request that undoes it was sent three seconds later.
    sleep(arrives.since(now()) + Duration::from_millis(500)).await;
    harness.proxy().delay(Duration::ZERO);
    harness.recorder.fault_ended(Fault::Partition);
    let mut stuck = Vec::new();
    for ask in ALL {
        let begun = now();
        match other.lock(&name(ask)).ttl(TTL).wait(TTL).acquire().await {
            Ok(guard) => guard.release().await.expect("held"),
            Err(_) => stuck.push((ask, now().since(begun))),
        }
    }
    assert!(stuck.is_empty(), "these locks have no holder and are not granted: {stuck:?}");
    assert!(kept.is_certain());
    kept.release().await.expect("held");
    harness.judge(&[client, other], LATE).await;
    let (fences, end) = (harness.all_keys(), now().after(TTL + SOON));
    assert_eq!(fences.len(), 1, "one for all: {fences:?}");
    while !harness.all_keys().is_empty() {
        assert!(now() < end, "a fence outlives its lease");
        pause(50).await;
    }
}
