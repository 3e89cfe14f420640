//! A queue of our clients and other programs' in the order of their arrival: at every moment exactly those
//! hold that the order says.
//!
//! A longer run: `LATCH_TURNS=500 cargo test -p testkit --test zookeeper_faults turns -- --nocapture`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use latchwork::engine::Mode::{self, Exclusive, Read, Write};
use tempfile::TempDir;
use testkit::history::checks::{Excuses, exclusion};
use testkit::history::{History, Recorder, Tag};
use testkit::servers::ZooKeeperAdmin;

use super::harness::{LASTING, SOON, ZookeeperHarness, until_nodes};
use super::our_claims::{JoinedClaim, OurClient};

/// The length of the queue.
const LENGTH: usize = 5;

/// The pattern of arrivals: whether the client is ours, and its mode. Either side arrives behind the other
/// and behind itself.
pub(crate) const BOTH_IN_TURNS: [(bool, Mode); 6] = [
    (true, Exclusive),
    (false, Exclusive),
    (true, Exclusive),
    (true, Exclusive),
    (false, Exclusive),
    (false, Exclusive),
];
/// Every mode behind every other of the two sides.
pub(crate) const READERS_AND_WRITERS: [(bool, Mode); 14] = [
    (true, Read),
    (false, Read),
    (true, Write),
    (false, Read),
    (true, Read),
    (false, Write),
    (true, Read),
    (true, Write),
    (false, Write),
    (true, Write),
    (false, Read),
    (false, Write),
    (true, Read),
    (false, Read),
];

/// Clients of another program.
pub(crate) trait OtherClients {
    /// A client joins the queue, and waits.
    async fn join(&mut self, number: u64, mode: Mode);

    /// Waits until it holds, and returns the transaction that created its node.
    async fn held(&mut self, number: u64) -> u64;

    /// The clients that are known to hold.
    async fn holding(&mut self) -> Vec<u64>;

    /// A holder releases.
    async fn leave(&mut self, number: u64);
}

/// The number of turns of each kind of lock.
pub(crate) fn turns() -> u64 {
    std::env::var("LATCH_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// One lock, and a record that both sides write.
pub(crate) struct MixedQueue {
    lock: String,
    admin: ZooKeeperAdmin,
    ours: Vec<OurClient>,
    folder: TempDir,
    queued: Vec<QueuedClient>,
    /// The server's counter for each holder, by the order of arrival.
    tokens: BTreeMap<u64, u64>,
    arrived: u64,
}

struct QueuedClient {
    number: u64,
    mode: Mode,
    /// `None` if it is another program's.
    joined: Option<JoinedClaim>,
}

impl MixedQueue {
    pub(crate) async fn new(harness: &ZookeeperHarness, lock: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let recorder = Recorder::shared(&folder.path().join("history"));
        let mut ours = Vec::new();
        for client in 1..=2 {
            let tag = Tag { process: std::process::id(), client };
            ours.push(OurClient::connect(&harness.direct_url(LASTING), recorder.clone(), tag, lock).await);
        }
        let (admin, tokens) = (harness.admin().await, BTreeMap::new());
        Self { lock: lock.to_owned(), admin, ours, folder, queued: Vec::new(), tokens, arrived: 0 }
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.folder.path().join("history")
    }

    /// Lets clients arrive in this pattern (whether it is ours, and its mode), repeatedly, this many times in
    /// all.
    pub(crate) async fn run(mut self, others: &mut impl OtherClients, pattern: &[(bool, Mode)], turns: u64) {
        let mut left = 0;
        while left < turns {
            while self.queued.len() < LENGTH && self.arrived < turns {
                let (is_ours, mode) = pattern[self.arrived as usize % pattern.len()];
                self.add(others, is_ours, mode).await;
            }
            let holding = self.check_the_holders(others).await;
            // Of several readers, any may be the first to release.
            self.remove(others, left as usize % holding).await;
            left += 1;
        }
        self.judge(turns);
    }

    async fn add(&mut self, others: &mut impl OtherClients, is_ours: bool, mode: Mode) {
        self.arrived += 1;
        let number = self.arrived;
        let ours = &self.ours[number as usize % self.ours.len()];
        let joined = is_ours.then(|| ours.join(number, mode));
        if joined.is_none() {
            others.join(number, mode).await;
        }
        self.queued.push(QueuedClient { number, mode, joined });
        // The next arrives when this one's node exists: so the order of arrival is known.
        until_nodes(&self.admin, &self.lock, self.queued.len()).await;
    }

    /// Checks that the first holds, and readers beside it. Returns their number.
    async fn check_the_holders(&mut self, others: &mut impl OtherClients) -> usize {
        let readers = self.queued.iter().take_while(|client| client.mode == Read).count();
        let holding = readers.max(1);
        for client in &mut self.queued[..holding] {
            if self.tokens.contains_key(&client.number) {
                continue;
            }
            let token = match &mut client.joined {
                Some(joined) => joined.held(SOON).await,
                None => tokio::time::timeout(SOON, others.held(client.number)).await.expect("its turn comes"),
            };
            self.tokens.insert(client.number, token);
        }
        let theirs = others.holding().await;
        for client in &self.queued[holding..] {
            let holds = client.joined.as_ref().map_or(theirs.contains(&client.number), JoinedClaim::holds);
            assert!(!holds, "{} ({:?}) holds before its turn", client.number, client.mode);
        }
        holding
    }

    async fn remove(&mut self, others: &mut impl OtherClients, at: usize) {
        let client = self.queued.remove(at);
        match client.joined {
            Some(joined) => self.ours[client.number as usize % self.ours.len()].leave(joined).await,
            None => others.leave(client.number).await,
        }
    }

    fn judge(&self, turns: u64) {
        let tokens: Vec<_> = self.tokens.values().collect();
        assert!(tokens.is_sorted() && tokens.len() as u64 == turns, "in the order of arrival: {tokens:?}");
        let judged = exclusion(&History::read(&self.history()), &Excuses::none()).expect("no holds overlap");
        assert_eq!(judged.judged as u64, turns, "all turns were recorded");
        println!("{turns} turns; {judged}");
    }
}
