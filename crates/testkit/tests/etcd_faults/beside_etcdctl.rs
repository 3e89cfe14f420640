//! One lock, contended by our clients and by `etcdctl lock`.
//!
//! A longer run: `LATCH_TURNS=500 cargo test -p testkit --test etcd_faults turns -- --nocapture`.

use std::process::Stdio;
use std::time::Duration;

use testkit::history::RecordedClient;
use testkit::servers::EtcdServer;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::harness::{EtcdHarness, LOCK, LONG, SOON, pause, take};

/// `etcdctl lock` or `etcdctl elect`, which prints its key when it has the lock, and releases it when it is
/// interrupted.
pub(crate) struct EtcdctlLock {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl EtcdctlLock {
    pub(crate) fn start(harness: &EtcdHarness<EtcdServer>, name: &str) -> Self {
        Self::run(harness, &["lock", name])
    }

    pub(crate) fn run(harness: &EtcdHarness<EtcdServer>, words: &[&str]) -> Self {
        let mut command = Command::from(harness.servers.owner().command(words));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("etcdctl starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    /// Waits until it has the lock, and returns its key.
    pub(crate) async fn held(&mut self) -> String {
        self.line().await
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(SOON, self.lines.next_line()).await.expect("its turn comes");
        line.expect("the pipe works").expect("the process prints a line")
    }

    /// Whether it has printed nothing for a while.
    pub(crate) async fn waits(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(100), self.lines.next_line()).await.is_err()
    }

    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("the process runs");
    }

    pub(crate) async fn release(mut self) {
        let pid = self.child.id().expect("the process was not reaped") as i32;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGINT)
            .expect("the process runs");
        tokio::time::timeout(SOON, self.child.wait())
            .await
            .expect("the process ends")
            .expect("the process is our child");
    }
}

fn turns() -> usize {
    std::env::var("LATCH_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

async fn wait_for(client: &RecordedClient) -> tokio::task::JoinHandle<testkit::history::RecordedGuard> {
    let lock = client.lock(LOCK).ttl(LONG).wait(10 * LONG);
    tokio::spawn(async move { lock.acquire().await.expect("its turn comes") })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_and_etcdctl_wait_for_each_other() {
    let harness = EtcdHarness::one();
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK)).await;
    let mut theirs = EtcdctlLock::start(&harness, LOCK);
    let keys = harness.until_keys(2).await;
    assert!(theirs.waits().await, "our client has the lock");
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("held");
    assert_eq!(theirs.held().await, keys[1]);
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "etcdctl has the lock");
    let waiting = wait_for(&client).await;
    harness.until_keys(2).await;
    pause(100).await;
    assert!(!waiting.is_finished(), "etcdctl has the lock");
    theirs.release().await;
    let guard = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}

/// A queue of alternating kinds; whenever a waiter was granted, another of its kind joins at the end.
async fn turns_are_granted_in_the_order_of_arrival(
    harness: &EtcdHarness<EtcdServer>,
    client: [RecordedClient; 2],
    name: &str,
    key_prefix: &str,
) {
    enum Turn {
        Ours(tokio::task::JoinHandle<testkit::history::RecordedGuard>),
        Etcdctl(Box<EtcdctlLock>),
    }
    let count = || {
        let keys = harness.etcdctl(&["get", "--prefix", "--keys-only", key_prefix]);
        keys.lines().filter(|line| !line.is_empty()).count()
    };
    let (mut queue, mut last) = (std::collections::VecDeque::new(), 0);
    for turn in 0..turns() {
        queue.push_back(match turn % 4 {
            // Two different clients of ours: a single one would hand the lock over locally.
            0 | 1 => Turn::Ours(wait_for(&client[turn % 2]).await),
            _ => Turn::Etcdctl(Box::new(EtcdctlLock::start(harness, name))),
        });
        let end = super::harness::now().after(SOON);
        while count() < queue.len() {
            assert!(super::harness::now() < end, "it does not join the queue");
        }
        if queue.len() < 4 && turn + 1 < turns() {
            continue;
        }
        let leaving = if turn + 1 < turns() { 1 } else { queue.len() };
        for _ in 0..leaving {
            let token = match queue.pop_front().expect("somebody") {
                Turn::Ours(waiting) => {
                    let guard =
                        tokio::time::timeout(SOON, waiting).await.expect("in order").expect("no panic");
                    let token = guard.token().expect("certain").engine_token();
                    guard.release().await.expect("held");
                    token
                }
                Turn::Etcdctl(mut theirs) => {
                    let key = theirs.held().await;
                    let fields = harness.etcdctl(&["get", &key, "--write-out=fields"]);
                    let revision = fields.lines().find_map(|line| line.strip_prefix("\"CreateRevision\" : "));
                    let token =
                        revision.expect("the server accepts the connection").parse().expect("a number");
                    theirs.release().await;
                    token
                }
            };
            assert!(token > last, "{token} after {last}");
            last = token;
        }
    }
    println!("{} turns", turns());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_both_kinds_are_granted_in_the_order_of_arrival() {
    let harness = EtcdHarness::one();
    let clients = [harness.client().await, harness.client().await];
    turns_are_granted_in_the_order_of_arrival(&harness, clients.clone(), LOCK, LOCK).await;
    harness.judge(&clients, 10 * SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_in_a_namespace_are_granted_in_the_order_of_arrival() {
    let harness = EtcdHarness::one();
    let url = format!("{}/?namespace=app/", harness.url());
    let clients = [harness.connect(&url).await, harness.connect(&url).await];
    let name = format!("app/{LOCK}");
    turns_are_granted_in_the_order_of_arrival(&harness, clients.clone(), &name, &name).await;
    harness.judge(&clients, 10 * SOON).await;
}
