//! The number of requests that a contended lock costs its server, counted by the server, with clients in
//! several processes.
//!
//! Every client takes its turns and ends. The count covers everything from the first claim to the last
//! release, so that no request falls between two samples.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, Lock};

use crate::servers::{EtcdServer, RedisServer, ZooKeeperServer};

/// The lock that all clients contend for.
const NAME: &str = "requests";

/// The clients that contend for the lock, and for how long. Each client has a connection of its own, and
/// local handoff is off.
#[derive(Clone, Copy, Debug)]
pub struct RequestLoad {
    /// The number of processes.
    pub processes: u32,
    /// The clients in each process.
    pub clients: u32,
    /// The turns of each client.
    pub turns: u32,
    /// The length of a turn.
    pub hold: Duration,
    /// The turns of each process that last this long. The others are as short as possible, because a run with
    /// many clients would otherwise take too long.
    pub held: u32,
}

/// A server that counts its requests.
pub trait CountsRequests {
    /// The requests for one turn of a client that had to wait, from the claim to the release.
    const TURN: f64;
    /// The heartbeats of one client per second.
    const BEATS: f64;
    /// The requests of a client at its start.
    const BEGINNING: f64;

    /// The URL for clients.
    fn url(&self) -> String;

    /// The number of requests answered so far, counted from any fixed moment.
    fn count(&self) -> u64;

    /// The number of watch notifications sent so far, counted likewise; `None` if the server does not report
    /// it.
    fn told(&self) -> Option<u64> {
        None
    }
}

/// A claim and a release: the server hands the lock over by itself.
impl CountsRequests for RedisServer {
    const TURN: f64 = 2.0;
    const BEATS: f64 = 1.0;
    const BEGINNING: f64 = 0.0;

    fn url(&self) -> String {
        format!("redis://{}?max-waiters=100000", self.address())
    }

    fn count(&self) -> u64 {
        self.calls(&["evalsha", "eval"])
    }
}

/// A claim, a check once the watch is set, a check when the predecessor is gone, and a release.
impl CountsRequests for EtcdServer {
    const TURN: f64 = 4.0;
    const BEATS: f64 = 0.25;
    const BEGINNING: f64 = 1.0;

    fn url(&self) -> String {
        format!("etcd://{}", self.address())
    }

    fn count(&self) -> u64 {
        self.calls(&["Txn", "Range", "Put", "DeleteRange", "LeaseGrant", "LeaseKeepAlive", "LeaseTimeToLive"])
    }
}

/// The creation of the node and a list of the others; reads of the first and of the nearest predecessor;
/// watches on the nearest and on the own node; a list when the nearest is gone; and the release. One more for
/// clients that look while the queue moves and have to look again.
impl CountsRequests for ZooKeeperServer {
    const TURN: f64 = 9.0;
    /// A heartbeat in every fifth of a session, and a read of three nodes in every third.
    const BEATS: f64 = 0.25 + 0.45;
    /// A client that finds the lock's own node missing has sent two requests to no effect, and creates the
    /// node.
    const BEGINNING: f64 = 3.0;

    fn url(&self) -> String {
        format!("zookeeper://{}", self.members()[0].address())
    }

    /// Heartbeats count as requests, too.
    fn count(&self) -> u64 {
        self.members()[0].figure("zk_packets_received")
    }

    fn told(&self) -> Option<u64> {
        Some(self.members()[0].figure("zk_sum_node_deleted_watch_count"))
    }
}

/// The requests that a load cost.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// The number of acquisitions.
    pub acquisitions: u64,
    /// The number of requests to the server.
    pub calls: u64,
    /// The allowed number of requests per acquisition.
    pub allowed: f64,
    /// The number of watch notifications, if the server reports it.
    pub told: Option<u64>,
    /// The number of clients.
    pub clients: u64,
    /// The time from the first claim to the last release.
    pub taken: Duration,
}

impl Requests {
    /// Runs the load against the server and counts its requests. `worker` is a program that calls [`work`]
    /// with the arguments appended to its command.
    ///
    /// # Panics
    /// If a process fails, or takes fewer turns than it should.
    pub fn of<S: CountsRequests>(load: &RequestLoad, server: &S, worker: impl Fn() -> Command) -> Self {
        let url = server.url();
        let mut processes: Vec<_> =
            (0..load.processes).map(|_| LoadProcess::start(worker().args(load.args(&url)))).collect();
        processes.iter_mut().for_each(|process| process.expect("ready"));
        let (before, told_before) = (server.count(), server.told());
        let begun = Clock::boottime().now();
        processes.iter_mut().for_each(LoadProcess::let_go);
        processes.iter_mut().for_each(|process| process.expect("done"));
        let taken = Clock::boottime().now().since(begun);
        let clients = u64::from(load.processes) * u64::from(load.clients);
        let acquisitions = clients * u64::from(load.turns);
        let each = clients as f64 / acquisitions as f64;
        // Everything that each client may send besides its turns.
        let allowed = S::TURN + each * (S::BEGINNING + S::BEATS * taken.as_secs_f64());
        let calls = server.count() - before;
        let told = server.told().zip(told_before).map(|(told, before)| told - before);
        Self { acquisitions, calls, allowed, told, clients, taken }
    }

    /// Requests per acquisition.
    pub fn per_acquisition(&self) -> f64 {
        self.calls as f64 / self.acquisitions as f64
    }
}

impl RequestLoad {
    fn args(&self, url: &str) -> [String; 5] {
        let millis = self.hold.as_millis().to_string();
        [url.to_owned(), self.clients.to_string(), self.turns.to_string(), millis, self.held.to_string()]
    }
}

/// The main function of one load process. Its arguments are those that [`Requests::of`] appends to the
/// command.
///
/// # Panics
/// If the arguments are different, or a lock cannot be acquired.
pub async fn work(args: &[&str]) {
    let [url, numbers @ ..] = args else { panic!("the arguments begin with a URL") };
    let numbers: Vec<u32> = numbers.iter().map(|number| number.parse().expect("a number")).collect();
    let [clients, turns, millis, held] = numbers[..] else { panic!("four numbers follow the URL") };
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(latchwork::connect(url).await.expect("the server accepts the connection"));
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).expect("the pipe works");
    let hold = Arc::new(HoldTime { span: Duration::from_millis(millis.into()), left: AtomicU32::new(held) });
    let tasks: Vec<_> =
        connected.iter().map(|client| tokio::spawn(take_turns(lock(client), turns, hold.clone()))).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    println!("done");
}

fn lock(client: &Client) -> Lock {
    client.lock(NAME).local_handoff(false)
}

async fn take_turns(lock: Lock, turns: u32, hold: Arc<HoldTime>) {
    for _ in 0..turns {
        let guard = lock.acquire().await.expect("the lock becomes free");
        hold.hold().await;
        guard.release().await.expect("held until here");
    }
}

/// The length of turns.
struct HoldTime {
    span: Duration,
    left: AtomicU32,
}

impl HoldTime {
    async fn hold(&self) {
        let one_less = |left: u32| left.checked_sub(1);
        if !self.span.is_zero()
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
        {
            tokio::time::sleep(self.span).await;
        }
    }
}

/// A process of the load. Killed when dropped.
struct LoadProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl LoadProcess {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the worker starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdin, stdout }
    }

    fn let_go(&mut self) {
        self.stdin.write_all(b"go\n").expect("the worker listens");
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the pipe works");
        assert_eq!(line.trim_end(), word, "a process of the load failed");
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
