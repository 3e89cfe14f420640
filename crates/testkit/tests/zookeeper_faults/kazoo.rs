//! A process that locks with kazoo.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use latchwork::engine::Mode;
use testkit::python::Script;

use super::harness::{CHROOT, ZookeeperHarness};
use super::mixed_queue::OtherClients;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zookeeper_faults/kazoo_queue.py");
/// The newest release at the time of writing.
const PACKAGE: &str = "kazoo==2.11.0";

/// A running `kazoo_queue.py`.
pub(crate) struct Kazoo {
    script: Script,
    /// The holders, with the transactions that created their nodes.
    held: HashMap<u64, u64>,
}

impl Kazoo {
    /// Starts a process that uses this lock and records its history.
    pub(crate) async fn start(harness: &ZookeeperHarness, lock: &str, history: &Path) -> Self {
        let args =
            [harness.hosts(), format!("{CHROOT}/{lock}"), lock.to_owned(), history.display().to_string()];
        let mut script = Script::start(PACKAGE, PROGRAM, &args.each_ref().map(String::as_str));
        assert_eq!(script.answer().await, "ready");
        Self { script, held: HashMap::new() }
    }

    /// Whether a try of this kind gets the lock.
    pub(crate) async fn can_lock(&mut self, kind: &str) -> bool {
        match self.script.ask(&format!("try {kind}")).await.as_str() {
            "got it" => true,
            "busy" => false,
            other => panic!("{other:?} is no answer to a try"),
        }
    }

    fn parse_event(&mut self, said: &str) -> Option<u64> {
        match said.split(' ').collect::<Vec<_>>()[..] {
            ["held", number, czxid] => {
                let [number, czxid] = [number, czxid].map(|digits| digits.parse().expect("a number"));
                self.held.insert(number, czxid);
                None
            }
            ["left", number] => Some(number.parse().expect("a number")),
            _ => panic!("{said:?} is not an expected line"),
        }
    }
}

impl OtherClients for Kazoo {
    async fn join(&mut self, number: u64, mode: Mode) {
        let kind = match mode {
            Mode::Read => "read",
            Mode::Write => "write",
            _ => "lock",
        };
        self.script.tell(&format!("join {number} {kind}")).await;
    }

    async fn held(&mut self, number: u64) -> u64 {
        loop {
            if let Some(czxid) = self.held.get(&number) {
                return *czxid;
            }
            let said = self.script.answer().await;
            self.parse_event(&said);
        }
    }

    async fn holding(&mut self) -> Vec<u64> {
        while let Some(said) = self.script.said_within(Duration::ZERO).await {
            self.parse_event(&said);
        }
        self.held.keys().copied().collect()
    }

    async fn leave(&mut self, number: u64) {
        self.script.tell(&format!("leave {number}")).await;
        self.held.remove(&number);
        loop {
            let said = self.script.answer().await;
            if self.parse_event(&said) == Some(number) {
                return;
            }
        }
    }
}
