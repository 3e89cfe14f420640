//! Many clients contend for one lock without a queue.

use testkit::harness::connect;
use testkit::workload::processes::ContendingProcesses;

use super::harness::{LOCK, RedlockHarness, SOON};

const CONTENDERS: ContendingProcesses = ContendingProcesses { processes: 4, clients: 5, turns: 10 };

/// Votes are split again and again, and one client always wins in the end.
async fn compete(masters: usize) {
    let harness = RedlockHarness::new();
    let url = harness.direct_url(masters, "quarantine=off&node-timeout=500ms");
    let contest = CONTENDERS.compete(&url).await;
    harness.until_keys(LOCK, 0, SOON).await;
    contest.is_judged(&connect(&url).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_contenders_in_four_processes_all_get_their_turns() {
    compete(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_contenders_all_get_their_turns_with_four_masters_where_half_is_no_majority() {
    compete(4).await;
}
