//! kazoo's `Lock`, `ReadLock` and `WriteLock` and ours on one path, configured as docs/engines/zookeeper.md
//! says.

use latchwork::engine::Mode::{self, Exclusive, Read, Write};
use testkit::history::{Recorder, Tag};

use super::harness::{LASTING, LOCK, LONG, SOON, ZookeeperHarness, take, until_nodes};
use super::kazoo::Kazoo;
use super::mixed_queue::{BOTH_IN_TURNS, MixedQueue, OtherClients as _, READERS_AND_WRITERS, turns};
use super::our_claims::OurClient;

const KINDS: [(Mode, &str); 3] = [(Exclusive, "lock"), (Write, "write"), (Read, "read")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_both_clients_are_granted_in_the_order_of_arrival() {
    let harness = ZookeeperHarness::one();
    let queue = MixedQueue::new(&harness, LOCK).await;
    let mut kazoo = Kazoo::start(&harness, LOCK, &queue.history()).await;
    queue.run(&mut kazoo, &BOTH_IN_TURNS, turns()).await;
    // This many of each kind.
    let queue = MixedQueue::new(&harness, "rw").await;
    let mut kazoo = Kazoo::start(&harness, "rw", &queue.history()).await;
    queue.run(&mut kazoo, &READERS_AND_WRITERS, 2 * turns()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_is_refused_while_the_other_holds() {
    let harness = ZookeeperHarness::one();
    let history = harness.store_path();
    let (recorder, tag) = (Recorder::shared(&history), Tag { process: std::process::id(), client: 1 });
    let ours = OurClient::connect(&harness.direct_url(LASTING), recorder, tag, LOCK).await;
    let mut kazoo = Kazoo::start(&harness, LOCK, &history).await;
    for (number, (mode, kind)) in KINDS.into_iter().enumerate() {
        let mut held = ours.join(1, mode);
        held.held(SOON).await;
        for (other, theirs) in KINDS {
            // Their locks check their own kind only, exclusive locks or readers and writers.
            if (mode == Exclusive) == (other == Exclusive) {
                let both_read = (mode, other) == (Read, Read);
                assert_eq!(kazoo.can_lock(theirs).await, both_read, "their {theirs} beside our {mode:?}");
            }
        }
        assert!(kazoo.can_lock("plain").await, "a kazoo lock without extra patterns does not see ours");
        ours.leave(held).await;
        assert!(kazoo.can_lock(kind).await, "their {kind} after our {mode:?}");
        let number = number as u64;
        kazoo.join(number, mode).await;
        kazoo.held(number).await;
        for (other, _) in KINDS {
            let both_read = (mode, other) == (Read, Read);
            assert_eq!(ours.can_lock(other).await, both_read, "our {other:?} beside their {kind}");
        }
        kazoo.leave(number).await;
        assert!(ours.can_lock(mode).await, "our {mode:?} after their {kind}");
    }
}

/// The usual case: a client of theirs that waits for one of ours, and vice versa.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_gets_the_lock_when_the_other_releases_it_or_dies() {
    let harness = ZookeeperHarness::one();
    let (client, admin) = (harness.client(LASTING).await, harness.admin().await);
    let mut kazoo = Kazoo::start(&harness, LOCK, &harness.store_path()).await;
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    kazoo.join(1, Exclusive).await;
    until_nodes(&admin, LOCK, 2).await;
    guard.release().await.expect("held");
    kazoo.held(1).await;
    let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let nodes = until_nodes(&admin, LOCK, 2).await;
    assert!(!waiting.is_finished(), "kazoo has the lock");
    // It is killed: its lock goes with its session.
    drop(kazoo);
    admin.end_session_of(&super::harness::path(LOCK, &nodes[0])).await;
    let guard = testkit::workload::queue::granted(waiting).await;
    guard.release().await.expect("held");
    harness.judge(&[client], LONG).await;
}

/// Our locks respect both. Between themselves they are not one queue, so both must not use one path even
/// where ours would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_does_not_see_a_kazoo_lock() {
    let harness = ZookeeperHarness::one();
    let mut kazoo = Kazoo::start(&harness, LOCK, &harness.store_path()).await;
    let mut curator = super::curator::Curator::new(&harness, LOCK, &harness.store_path()).await;
    kazoo.join(1, Exclusive).await;
    kazoo.held(1).await;
    curator.join(2, Exclusive).await;
    assert_eq!(curator.holding().await, [2], "Curator's rule passes over kazoo's node");
    assert_eq!(kazoo.holding().await, [1], "and kazoo still holds");
    let client = harness.rival(LASTING).await;
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "ours see both");
    curator.leave(2).await;
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "ours see kazoo's");
    kazoo.leave(1).await;
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_some());
}
