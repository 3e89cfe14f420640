//! A lock that one client acquires again and again is not listed each time, and this shortcut never costs
//! another client the lock.

use std::time::Duration;

use latchwork::{Client, Guard};
use testkit::servers::{ZooKeeperAdmin, ZooKeeperMeter, ZooKeeperOptions, ZooKeeperServer};

const SOON: Duration = Duration::from_secs(10);

struct FastPathHarness {
    meter: ZooKeeperMeter,
    admin: ZooKeeperAdmin,
    client: Client,
    server: ZooKeeperServer,
}

impl FastPathHarness {
    async fn new() -> Self {
        let server = ZooKeeperServer::start(ZooKeeperOptions::default());
        let meter = ZooKeeperMeter::to(server.members()[0].address());
        let client = connect(meter.address()).await;
        let admin = ZooKeeperAdmin::connect(&server, None).await;
        Self { meter, admin, client, server }
    }

    async fn rival(&self) -> Client {
        connect(self.server.members()[0].address()).await
    }

    /// Acquires and releases; returns the requests of each turn.
    async fn turns(&self, count: usize) -> Vec<u64> {
        let mut requests = Vec::new();
        for _ in 0..count {
            let before = self.meter.others();
            take(&self.client).await.release().await.expect("held");
            requests.push(self.meter.others() - before);
        }
        requests
    }

    async fn is_free(&self) -> bool {
        match self.client.lock("quiet").try_acquire().await.expect("an answer") {
            Some(guard) => guard.release().await.is_ok(),
            None => false,
        }
    }
}

async fn connect(place: std::net::SocketAddr) -> Client {
    latchwork::connect(&format!("zookeeper://{place}/app")).await.expect("the process runs")
}

async fn take(client: &Client) -> Guard {
    client.lock("quiet").wait(SOON).acquire().await.expect("the lock becomes free")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_only_one_client_wants_costs_a_create_and_a_delete() {
    let harness = FastPathHarness::new().await;
    let requests = harness.turns(10).await;
    assert_eq!(requests[3..], [2; 7], "{requests:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rival_that_claims_in_between_is_seen() {
    let harness = FastPathHarness::new().await;
    let rival = harness.rival().await;
    for _ in 0..3 {
        harness.turns(4).await;
        let other = take(&rival).await;
        assert!(!harness.is_free().await, "another client holds it");
        let waiting = tokio::spawn({
            let client = harness.client.clone();
            async move { take(&client).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished() && other.is_certain());
        other.release().await.expect("held");
        waiting.await.expect("no panic").release().await.expect("held");
    }
}

/// The client gets exactly the sequence number that it expects, but is fifth in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_whose_own_node_was_recreated_is_not_taken_for_free_by_its_numbers() {
    let harness = FastPathHarness::new().await;
    harness.turns(4).await;
    // The numbers 0 to 3 are used, so that 4 is expected.
    harness.admin.delete("/app/quiet").await;
    harness.admin.make("/app/quiet").await;
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(harness.admin.enrol("/app/quiet/somebody-lock-").await);
    }
    assert!(nodes[3].ends_with("0000000003"), "{nodes:?}");
    assert!(!harness.is_free().await, "there are four other nodes");
    for node in nodes {
        harness.admin.delete(&node).await;
    }
    assert!(harness.is_free().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_client_without_local_handoff_exclude_each_other() {
    let harness = FastPathHarness::new().await;
    harness.turns(4).await;
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let task = |_| {
        let (client, inside) = (harness.client.clone(), inside.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                let lock = client.lock("quiet").wait(SOON * 2).local_handoff(false);
                let guard = lock.acquire().await.expect("the lock becomes free");
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.expect("held");
            }
        })
    };
    for task in (0..4).map(task).collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}
