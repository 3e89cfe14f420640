//! Curator's locks and ours on one path: nodes as Curator creates them, and Curator's own rule for the
//! holder.
//!
//! `InterProcessMutex` sorts by the text after `lock-`, and the first holds. `InterProcessReadWriteLock`
//! sorts by the text after `__READ__` or `__WRIT__`: a writer holds when it is the first, a reader when no
//! writer is before it.

use std::collections::HashMap;
use std::path::Path;

use latchwork::LockName;
use latchwork::clock::Moment;
use latchwork::engine::Mode::{self, Exclusive, Read, Write};
use testkit::history::{Recorder, Tag, What};
use testkit::servers::ZooKeeperAdmin;

use super::harness::{CHROOT, LASTING, LOCK, ZookeeperHarness, nodes, pause};
use super::mixed_queue::{BOTH_IN_TURNS, MixedQueue, OtherClients, READERS_AND_WRITERS, turns};

const MUTEX: &str = "lock-";
const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";
const LATCH: &str = "latch-";

/// Clients of Curator.
pub(crate) struct Curator {
    admin: ZooKeeperAdmin,
    lock: String,
    recorder: Recorder,
    /// Their modes and nodes.
    joined: HashMap<u64, (Mode, String)>,
}

impl Curator {
    pub(crate) async fn new(harness: &ZookeeperHarness, lock: &str, history: &Path) -> Self {
        let (admin, recorder) = (harness.admin().await, Recorder::shared(history));
        Self { admin, lock: lock.to_owned(), recorder, joined: HashMap::new() }
    }

    fn note(&self, number: u64, what: What) {
        let (tag, name) = (Tag { process: std::process::id(), client: 3 }, LockName::new(&self.lock));
        self.recorder.note(tag, number, name.ok().as_ref(), what);
    }

    /// The whole path of a node below the lock.
    fn path(&self, node: &str) -> String {
        format!("{CHROOT}/{}/{node}", self.lock)
    }
}

impl OtherClients for Curator {
    async fn join(&mut self, number: u64, mode: Mode) {
        let name = match mode {
            Read => READ,
            Write => WRITE,
            _ => MUTEX,
        };
        let path = self.path(&format!("_c_00000000-0000-4000-8000-{number:012x}-{name}"));
        self.note(number, What::Invoked(mode));
        let node = self.admin.enrol(&path).await;
        let node = node.rsplit('/').next().expect("a name").to_owned();
        self.joined.insert(number, (mode, node));
    }

    async fn held(&mut self, number: u64) -> u64 {
        while !self.holding().await.contains(&number) {
            pause(1).await;
        }
        self.note(number, What::Acquired { token: None, lease_end: Moment::NEVER });
        let path = self.path(&self.joined[&number].1);
        self.admin
            .czxid(&path)
            .await
            .expect("the node exists")
            .try_into()
            .expect("transactions are counted up")
    }

    async fn holding(&mut self) -> Vec<u64> {
        let children = nodes(&self.admin, &self.lock).await;
        let holds = |(number, (mode, node)): (&u64, &(Mode, String))| {
            holds(&children, node, *mode).then_some(*number)
        };
        self.joined.iter().filter_map(holds).collect()
    }

    async fn leave(&mut self, number: u64) {
        let (_, node) = self.joined.remove(&number).expect("the client is in the queue");
        self.note(number, What::ReleaseInvoked);
        self.admin.delete(&self.path(&node)).await;
        self.note(number, What::Released);
    }
}

/// Curator's rule.
fn holds(children: &[String], own: &str, mode: Mode) -> bool {
    let marks: &[&str] = if mode == Exclusive { &[MUTEX] } else { &[READ, WRITE] };
    let sorted = sorted(children, marks);
    let place = sorted.iter().position(|name| name == own);
    let writer = sorted.iter().position(|name| name.contains(WRITE));
    match (place, mode) {
        (None, _) => false,
        (Some(place), Read) => writer.is_none_or(|writer| place < writer),
        (Some(place), _) => place == 0,
    }
}

/// By the text after the mark, or by all of it.
fn sorted(children: &[String], marks: &[&str]) -> Vec<String> {
    let key = |name: &String| {
        let behind = marks.iter().find_map(|mark| name.rfind(mark).map(|at| at + mark.len()));
        name[behind.unwrap_or(0)..].to_owned()
    };
    let mut sorted = children.to_vec();
    sorted.sort_by_key(key);
    sorted
}

/// Curator's `LeaderLatch` leads where it is the first by its own mark. Elections cannot be shared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_curator_leader_latch_leads_beside_ours_and_ours_waits_for_it() {
    let harness = ZookeeperHarness::one();
    let (client, admin) = (harness.rival(LASTING).await, harness.admin().await);
    let leading = client.election(LOCK).campaign("ours").await.expect("there is no other candidate");
    let theirs =
        admin.enrol(&format!("{CHROOT}/{LOCK}/_c_00000000-0000-4000-8000-000000000001-{LATCH}")).await;
    let theirs = theirs.rsplit('/').next().expect("a name");
    assert_eq!(sorted(&nodes(&admin, LOCK).await, &[LATCH])[0], theirs, "it considers itself the first");
    leading.release().await.expect("the leader held until here");
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "ours see its node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_both_clients_are_granted_in_the_order_of_arrival() {
    let harness = ZookeeperHarness::one();
    // Curator creates the lock's own node before anything else.
    let admin = harness.admin().await;
    for path in [CHROOT, "/app/orders", "/app/orders/42", "/app/rw"] {
        admin.make(path).await;
    }
    let queue = MixedQueue::new(&harness, LOCK).await;
    let mut curator = Curator::new(&harness, LOCK, &queue.history()).await;
    queue.run(&mut curator, &BOTH_IN_TURNS, turns()).await;
    let queue = MixedQueue::new(&harness, "rw").await;
    let mut curator = Curator::new(&harness, "rw", &queue.history()).await;
    queue.run(&mut curator, &READERS_AND_WRITERS, 2 * turns()).await;
}
