//! Followers are stopped one at a time, while clients claim locks and give up in every possible way. When all
//! members work again, no lock is lost.
//!
//! Short in the suite. `LATCH_SOAK_SECONDS` is the duration of the soak. `LATCH_STOPPED_SECONDS` is how long
//! a follower is stopped under `LATCH_CLAIMS` claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use latchwork::{Client, Lock};
use testkit::seed::Seed;
use testkit::servers::EtcdCluster;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::harness::{EtcdHarness, connect, now};

const TTL: Duration = Duration::from_secs(3);
const LOCKS: usize = 4;
const CLIENTS: usize = 6;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A client that uses this member first, and no proxy.
async fn client_of(harness: &EtcdHarness<EtcdCluster>, member: usize) -> Client {
    let mut hosts = harness.servers.addresses().map(|address| address.to_string());
    hosts.rotate_left(member);
    connect(&format!("etcd://{}", hosts.join(","))).await
}

fn follower(harness: &EtcdHarness<EtcdCluster>) -> usize {
    (harness.servers.leader() + 1) % 3
}

/// When each lock was last granted, shared by the tasks that claim locks.
struct Grants {
    /// In microseconds.
    last: [AtomicU64; LOCKS],
    count: AtomicU64,
    is_over: AtomicBool,
}

impl Grants {
    fn granted(&self, lock: usize) {
        self.last[lock].fetch_max(now().as_micros(), Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Claims one lock after the other: a try, a short wait, or a cancelled wait.
async fn ask_on(client: Client, grants: Arc<Grants>, mut seed: Seed) {
    while !grants.is_over.load(Ordering::Relaxed) {
        let at = seed.below(LOCKS as u64) as usize;
        let lock = client.lock(format!("soak/{at}")).ttl(TTL);
        let patience = Duration::from_millis(20 + seed.below(400));
        let guard = match seed.below(3) {
            0 => lock.try_acquire().await.ok().flatten(),
            1 => lock.wait(patience).acquire().await.ok(),
            _ => timeout(patience, lock.acquire()).await.ok().and_then(Result::ok),
        };
        if let Some(guard) = guard {
            grants.granted(at);
            sleep(Duration::from_millis(seed.below(20))).await;
            match seed.percent(50) {
                true => drop(guard.release().await),
                false => drop(guard),
            }
        }
        sleep(Duration::from_millis(seed.below(20))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lock_is_lost_while_followers_are_stopped_one_at_a_time() {
    let harness = EtcdHarness::three();
    let (mut seed, soak) = (Seed::new(1), Duration::from_secs(number("LATCH_SOAK_SECONDS", 10)));
    let last = [(); LOCKS].map(|()| AtomicU64::new(now().as_micros()));
    let grants = Arc::new(Grants { last, count: AtomicU64::new(0), is_over: AtomicBool::new(false) });
    let (mut asking, mut kept) = (JoinSet::new(), Vec::new());
    for number in 0..CLIENTS {
        let client = client_of(&harness, number % 3).await;
        // Its lease lives as long as the soak.
        kept.push(client.lock(format!("kept/{number}")).ttl(TTL).acquire().await.expect("free"));
        for _ in 0..4 {
            asking.spawn(ask_on(client.clone(), grants.clone(), Seed::new(seed.number())));
        }
    }
    let (end, mut stops, mut longest) = (now().after(soak), 0, Duration::ZERO);
    while now() < end {
        let (leader, stopped) = (harness.servers.leader(), seed.below(2) as usize);
        let member = harness.servers.member((leader + 1 + stopped) % 3);
        member.pause();
        sleep(seed.span(&(TTL..=Duration::from_secs(8))).min(end.since(now()) + TTL)).await;
        member.resume();
        stops += 1;
        // From here on every lock must be granted within a ttl.
        let well = now();
        while now() < well.after(TTL + TTL) {
            let granted = |last: &AtomicU64| last.load(Ordering::Relaxed).max(well.as_micros());
            let oldest = grants.last.iter().map(granted).min().expect("some");
            longest = longest.max(Duration::from_micros(now().as_micros() - oldest));
            if longest > TTL {
                let keys = harness.etcdctl(&["get", "--prefix", "--keys-only", "soak/"]);
                panic!("a lock was not granted for {longest:?} after stop {stops}; {keys}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    grants.is_over.store(true, Ordering::Relaxed);
    while let Some(asked) = asking.join_next().await {
        asked.expect("no panic");
    }
    let count = grants.count.load(Ordering::Relaxed);
    println!(
        "{count} grants, {stops} stops; with all members well, no lock was idle for longer than {longest:?}"
    );
    assert!(count > 100, "too little happened: {count}");
}

/// Tries while their member is stopped. When it continues, the member executes the requests that it has read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_at_a_stopped_follower_leave_nothing_behind() {
    let harness = EtcdHarness::three();
    let (member, claims) = (follower(&harness), number("LATCH_CLAIMS", 200));
    let mut clients = Vec::new();
    for number in 0..4 {
        let client = client_of(&harness, member).await;
        let kept = client.lock(format!("kept/{number}")).ttl(TTL).acquire().await.expect("free");
        clients.push((client, kept));
    }
    let stopped = Duration::from_secs(number("LATCH_STOPPED_SECONDS", 6));
    let mut trying = JoinSet::new();
    let begun = now();
    harness.servers.member(member).pause();
    for number in 0..claims {
        let lock: Lock = clients[number as usize % clients.len()].0.lock(format!("stuck/{number}")).ttl(TTL);
        trying.spawn(async move {
            if let Ok(Some(guard)) = lock.try_acquire().await {
                let _ = guard.release().await;
            }
        });
    }
    while let Some(tried) = trying.join_next().await {
        tried.expect("no panic");
    }
    sleep(stopped.saturating_sub(now().since(begun))).await;
    harness.servers.member(member).resume();
    harness.servers.until_healthy();
    sleep(Duration::from_millis(1_500)).await;
    let keys = harness.etcdctl(&["get", "--prefix", "--keys-only", "stuck/"]);
    let stuck = keys.lines().filter(|line| !line.is_empty()).count();
    println!("{stuck} of {claims} stuck, the follower was stopped for {stopped:?}");
    assert_eq!(stuck, 0, "of {claims}");
    assert!(clients.iter().all(|(_, kept)| kept.is_certain()));
}
