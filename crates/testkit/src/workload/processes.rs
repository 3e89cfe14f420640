//! Clients in several processes that contend for one lock, without local handoff.

use std::collections::HashMap;
use std::time::Duration;

use latchwork::Client;

use crate::harness::{LOCK, LONG, SOON};
use crate::history::History;
use crate::history::checks::{Expectations, check_all};
use crate::worker_process::WorkerProcess;

/// The numbers of processes, clients and turns.
#[derive(Clone, Copy, Debug)]
pub struct ContendingProcesses {
    /// The number of processes.
    pub processes: usize,
    /// Clients in each process.
    pub clients: usize,
    /// Turns of each client.
    pub turns: usize,
}

/// The result of a run.
pub struct ContendedRun {
    processes: ContendingProcesses,
    history: History,
}

impl ContendingProcesses {
    /// Sets the total number of turns: the value of `LATCH_TURNS`, or else `turns`.
    pub fn taking(self, turns: usize) -> Self {
        let wanted = std::env::var("LATCH_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(turns);
        Self { turns: usize::div_ceil(wanted, self.processes * self.clients), ..self }
    }

    /// The total number of turns.
    pub fn all(&self) -> usize {
        self.processes * self.clients * self.turns
    }

    /// Runs all turns; each adds 1 to a number that is protected by nothing but the lock.
    ///
    /// # Panics
    /// If one of them got an error, or the number is wrong.
    pub async fn compete(self, url: &str) -> ContendedRun {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [file, history] =
            ["counter", "history"].map(|name| folder.path().join(name).display().to_string());
        let [clients, turns] = [self.clients, self.turns].map(|number| number.to_string());
        let start = |_| WorkerProcess::start(&["contenders", url, LOCK, &file, &history, &clients, &turns]);
        for mut worker in (0..self.processes).map(start).collect::<Vec<_>>() {
            worker.done().await;
        }
        assert_eq!(std::fs::read_to_string(&file).expect("the counter was written"), self.all().to_string());
        ContendedRun { processes: self, history: History::read(history.as_ref()) }
    }
}

impl ContendedRun {
    /// Checks the guarantees of this client's engine, and prints the waiting times.
    ///
    /// # Panics
    /// If a guarantee was broken. The message shows the events around it.
    pub fn is_judged(&self, client: &Client) {
        let expected =
            Expectations { answer_within: LONG, idle_at_most: SOON, queued_after: None, left: None };
        let stats = check_all(&self.history, &client.guarantees(), &expected);
        let stats = stats.unwrap_or_else(|violation| panic!("{violation}"));
        stats.iter().for_each(|stats| println!("{stats}"));
        let attempts = self.history.attempts();
        let mut waits: Vec<Duration> =
            attempts.iter().map(|attempt| attempt.ended().at.since(attempt.invoked.at)).collect();
        waits.sort();
        let [middle, late] = [waits.len() / 2, waits.len() * 99 / 100].map(|at| waits[at]);
        let first = attempts.iter().map(|attempt| attempt.invoked.at).min().expect("there are attempts");
        let last =
            attempts.iter().map(|attempt| attempt.ended().at).max().expect("the attempts were answered");
        let (processes, all, took) = (self.processes, self.processes.all(), last.since(first));
        println!("{processes:?}: {all} turns in {took:?}, wait p50 {middle:?}, p99 {late:?}");
    }

    /// Checks that hardly any client had more than two turns while another waited: one that was requested
    /// before the other arrived, and one while its claim was in transit.
    ///
    /// # Panics
    /// If clients were passed over too often.
    pub fn is_fair(&self) {
        let mut holds: Vec<_> = self.history.holds().iter().collect();
        holds.sort_by_key(|hold| hold.token);
        let mut passed_over = 0;
        for (place, hold) in holds.iter().enumerate() {
            let mut turns = HashMap::new();
            let ahead = holds[..place].iter().rev().take_while(|ahead| ahead.start > hold.invoked);
            ahead.for_each(|ahead| *turns.entry(ahead.who).or_insert(0) += 1);
            passed_over += usize::from(turns.values().any(|turns| *turns > 2));
        }
        println!("{passed_over} of {} were passed over", holds.len());
        assert!(passed_over * 50 <= holds.len(), "more than one in fifty");
    }
}
