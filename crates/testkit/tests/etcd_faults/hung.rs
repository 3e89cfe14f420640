//! One member of several hangs, and its connections stay open. The others work.

use std::time::Duration;

use testkit::history::{Fault, RecordedClient, RecordedGuard};
use testkit::network::proxy::Proxy;
use testkit::servers::EtcdServer;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::harness::{EtcdHarness, LONG, SOON, now, pause, take, wait_for_renewal};

const TTL: Duration = Duration::from_secs(3);
/// Longer than a lease, and longer than two unanswered requests.
const HUNG: Duration = Duration::from_secs(7);

/// A client whose claims go through the proxy, to the member that is going to hang. The two other members
/// work.
async fn client_of_the_hung_member(harness: &EtcdHarness<EtcdServer>) -> RecordedClient {
    let (proxy, direct) = (harness.proxy().address(), harness.servers.address());
    harness.connect(&format!("etcd://{proxy},{direct},{direct}")).await
}

/// The keys of all queues, in their order.
fn queues(harness: &EtcdHarness<EtcdServer>) -> Vec<String> {
    let keys = harness.etcdctl(&["get", "--prefix", "--keys-only", "--sort-by=CREATE", "queue/"]);
    keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Creates `count` locks that `other` holds and that each client waits for.
async fn waiters(
    harness: &EtcdHarness<EtcdServer>,
    clients: &[RecordedClient],
    holder: &RecordedClient,
    count: usize,
) -> (Vec<RecordedGuard>, JoinSet<()>) {
    let (mut held, mut waiting) = (Vec::new(), JoinSet::new());
    for number in 0..count {
        let name = format!("queue/{number}");
        held.push(take(&holder.lock(&name).ttl(LONG)).await);
        for client in clients {
            let lock = client.lock(&name).ttl(TTL);
            waiting.spawn(async move {
                let guard = lock.wait(LONG).acquire().await.expect("its turn comes");
                guard.release().await.expect("held");
            });
        }
        // Spreads the waiters over the interval at which they poll.
        tokio::time::sleep(TTL / 3 / u32::try_from(count).expect("few")).await;
    }
    let (all, end) = (count * (1 + clients.len()), now().after(SOON));
    while queues(harness).len() != all {
        assert!(now() < end, "the waiters do not queue");
        pause(10).await;
    }
    (held, waiting)
}

async fn are_served(held: Vec<RecordedGuard>, mut waiting: JoinSet<()>) {
    drop(held);
    while let Some(served) = timeout(LONG, waiting.join_next()).await.expect("the waiter is granted the lock")
    {
        served.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_at_a_hung_member_cost_no_lock_that_another_member_renews() {
    let harness = EtcdHarness::one();
    let other = harness.direct_client().await;
    let (mut clients, mut kept) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let client = client_of_the_hung_member(&harness).await;
        kept.push(take(&client.lock(&format!("kept/{number}")).ttl(TTL)).await);
        clients.push(client);
    }
    for guard in &kept {
        wait_for_renewal(guard).await;
    }
    let (held, waiting) = waiters(&harness, &clients, &other, 12).await;
    let before = queues(&harness);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().black_hole(true);
    tokio::time::sleep(HUNG).await;
    let lost = kept.iter().filter(|guard| !guard.is_certain()).count();
    assert_eq!(lost, 0, "of {}", kept.len());
    assert!(queues(&harness) == before, "places in queues were lost");
    harness.proxy().black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    are_served(held, waiting).await;
    for guard in kept {
        guard.release().await.expect("held");
    }
    clients.push(other);
    harness.judge(&clients, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_at_a_hung_member_keep_their_places() {
    let harness = EtcdHarness::one();
    let (clients, other) = ([client_of_the_hung_member(&harness).await], harness.direct_client().await);
    let (held, waiting) = waiters(&harness, &clients, &other, 30).await;
    let before = queues(&harness);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().black_hole(true);
    tokio::time::sleep(HUNG).await;
    assert!(queues(&harness) == before, "places in queues were lost");
    harness.proxy().black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    are_served(held, waiting).await;
    let [client] = clients;
    harness.judge(&[client, other], LONG).await;
}

/// Abandoned connections are closed, even those that were not replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_abandoned_connection_stays_open() {
    let harness = EtcdHarness::three();
    let connections = || harness.proxies.iter().map(Proxy::connections).collect::<Vec<_>>();
    let client = harness.client().await;
    let other = harness.direct_client().await;
    let held = take(&other.lock("queue").ttl(LONG)).await;
    let kept = take(&client.lock("kept").ttl(TTL)).await;
    wait_for_renewal(&kept).await;
    let waiting = {
        let lock = client.lock("queue").ttl(TTL).wait(2 * LONG);
        tokio::spawn(async move { lock.acquire().await.expect("its turn comes") })
    };
    pause(200).await;
    let before: usize = connections().iter().sum();
    harness.recorder.fault_began(Fault::Partition);
    harness.proxies[0].black_hole(true);
    let mut asking = JoinSet::new();
    for number in 0..4 {
        let lock = client.lock(&format!("tried/{number}")).ttl(TTL);
        asking.spawn(async move {
            if let Ok(Some(guard)) = lock.try_acquire().await {
                guard.release().await.expect("held");
            }
        });
    }
    tokio::time::sleep(TTL + TTL / 3).await;
    while asking.join_next().await.is_some() {}
    harness.proxies[0].black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    drop(held);
    waiting.await.expect("no panic").release().await.expect("held");
    let end = now().after(SOON);
    while connections().iter().sum::<usize>() > before {
        assert!(now() < end, "{before} connections before, {:?} now", connections());
        pause(20).await;
    }
    kept.release().await.expect("held");
    harness.judge(&[client, other], LONG).await;
}
