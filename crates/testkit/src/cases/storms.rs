//! All recipes at once, while processes are killed and stopped and clients are cut off. The history of each
//! process is judged.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Filter, Mode};
use latchwork::{Client, Guarantees, LockName};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::support::{LONG, name, nothing_left, pause};
use crate::Fixture;
use crate::cell_history::CellHistory;
use crate::history::checks::{Excuses, Expectations, Stats, check_all, kept, leaders};
use crate::history::{Fault, History, RecordedClient, RecordedGuard, RecordedObserver, Recorder};
use crate::worker_process::WorkerProcess;
use crate::workload::mixed::{self, MixedWorkload, POOL, SERVICE, SHELF};

/// The ttl of processes that are killed or stopped: they may lose their locks.
const SHORT: Duration = Duration::from_secs(1);
/// The ttl of clients that are cut off.
const TTL: Duration = Duration::from_secs(2);
/// The stop margin of these clients; it is long because the machine may be busy.
const MARGIN: Duration = Duration::from_millis(700);
/// The limit for everything to recover, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// The limit for an answer of an engine, on a busy machine.
const PROBE: Duration = Duration::from_secs(10);
/// A lease that does not expire even on a busy machine.
const SURE: Duration = Duration::from_secs(10);

pub(super) async fn killed_and_stopped_processes_break_no_promise<F: Fixture>(fixture: Arc<F>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [path, cell] = mixed::record_paths(folder.path());
    let (recorder, cells) = (Recorder::shared(&path), Arc::new(CellHistory::shared(&cell)));
    let client = recorder.client(fixture.client().await);
    let watching = follow(&client);
    let workload = MixedWorkload::start(&client, LONG, &cells);
    let ttl = SHORT.max(client.client().guarantees().min_ttl);
    let [mut dies, mut stops] =
        [start(&*fixture, folder.path(), ttl).await, start(&*fixture, folder.path(), ttl).await];
    workload.wait_for_turns(3).await;
    recorder.killed(dies.pid());
    dies.kill().await;
    dies = start(&*fixture, folder.path(), ttl).await;
    workload.wait_for_turns(2).await;
    recorder.stopped(stops.pid());
    stop(&stops, client.client()).await;
    tokio::time::sleep(ttl + ttl / 4).await;
    recorder.killed(dies.pid());
    dies.kill().await;
    workload.wait_for_turns(1).await;
    stops.signal(Signal::SIGCONT);
    workload.wait_for_turns(2).await;
    mixed::request_stop(folder.path());
    stops.done().await;
    workload.stop().await;
    at_rest(&*fixture, &client, &recorder, watching).await;
    let history = History::read(&path);
    judge::<F>(&history, client.client()).await;
    let stats = kept(&history, SURE, &Excuses::none()).expect("no hold was lost because of another's death");
    assert!(stats.judged > 0 || F::guarantees().lives_with_session, "{stats}");
    CellHistory::read(&cell).check().expect("linearizable");
}

/// Stops a process, but not in the middle of a write to a file that all processes share: until it continued,
/// no process could write.
async fn stop(worker: &WorkerProcess, client: &Client) {
    loop {
        worker.stop();
        let probe = async { client.lock("probe").acquire().await?.release().await };
        match timeout(PROBE, probe).await {
            Ok(outcome) => return outcome.expect("answers"),
            Err(_) => worker.signal(Signal::SIGCONT),
        }
        pause(10).await;
    }
}

async fn start<F: Fixture>(fixture: &F, folder: &Path, ttl: Duration) -> WorkerProcess {
    let url = fixture.url().expect("this engine is shared between processes");
    let millis = ttl.as_millis().to_string();
    let mut worker = WorkerProcess::start(&["mixed", &url, &folder.display().to_string(), &millis]);
    assert_eq!(worker.line().await, "started");
    worker
}

pub(super) async fn clients_that_are_cut_off_break_no_promise<F: Fixture>(fixture: Arc<F>) {
    let (recorder, cells) = (Recorder::in_memory(crate::harness::clock()), Arc::new(CellHistory::default()));
    let cut_off = recorder.client(fixture.client().await);
    let url = fixture.url().expect("the engine has a second route");
    let beside = recorder.client(latchwork::connect(&url).await.expect("the engine accepts the connection"));
    let watching = follow(&cut_off);
    let ttl = TTL.max(cut_off.client().guarantees().min_ttl);
    let workloads = [&cut_off, &beside].map(|client| MixedWorkload::start(client, ttl, &cells));
    workloads[0].wait_for_turns(2).await;
    let holders = hold_every_kind(&cut_off, ttl).await;
    recorder.fault_began(Fault::Partition);
    fixture.breaks().await;
    for holder in holders {
        timeout(PATIENCE, holder).await.expect("a holder that is cut off is told").expect("no panic");
    }
    workloads[1].wait_for_turns(3).await;
    fixture.mend().await;
    recorder.fault_ended(Fault::Partition);
    workloads[0].wait_for_turns(2).await;
    for workload in workloads {
        workload.stop().await;
    }
    at_rest(&*fixture, &cut_off, &recorder, watching).await;
    judge::<F>(&recorder.history(), beside.client()).await;
    cells.check().expect("linearizable");
}

/// Holds one lock of each kind until its loss is reported.
async fn hold_every_kind(client: &RecordedClient, ttl: Duration) -> Vec<JoinHandle<()>> {
    let promised = client.client().guarantees();
    let mut held = Vec::new();
    for (lock, mode, can) in
        [(SHELF, Mode::Read, promised.read_write), (POOL.0, Mode::Permit { of: POOL.1 }, promised.permits)]
    {
        if can {
            let lock = client.shared_lock(lock, mode).ttl(ttl).with(|lock| lock.stop_margin(MARGIN));
            held.push(lock.acquire().await.expect("its turn comes"));
        }
    }
    if promised.cells {
        let election = client.election(SERVICE).ttl(ttl).with(|election| election.stop_margin(MARGIN));
        held.push(election.campaign("cut off").await.expect("its turn comes"));
    }
    let until_lost = |guard: RecordedGuard| {
        tokio::spawn(async move {
            guard.lost().await;
        })
    };
    held.into_iter().map(until_lost).collect()
}

/// Observes the leaders until the last one.
fn follow(client: &RecordedClient) -> Option<JoinHandle<()>> {
    let observer = client.client().guarantees().cells.then(|| client.election(SERVICE).observe())?;
    Some(tokio::spawn(observe_until_the_last_leader(observer)))
}

async fn observe_until_the_last_leader(mut observer: RecordedObserver) {
    loop {
        match observer.next().await {
            Ok(leader) if leader.value == b"last" => return,
            Ok(_) => {}
            // An outage is reported as an error; the observer can be polled again and misses nothing.
            Err(_) => pause(20).await,
        }
    }
}

/// The last leader leads until every observer has seen it; then everything is released.
async fn at_rest<F: Fixture>(
    fixture: &F,
    client: &RecordedClient,
    recorder: &Recorder,
    watching: Option<JoinHandle<()>>,
) {
    if let Some(watching) = watching {
        let election = client.election(SERVICE).ttl(LONG);
        let last = timeout(PATIENCE, election.campaign("last")).await.expect("no candidate is ahead");
        let last = last.expect("no candidate is ahead");
        timeout(PATIENCE, watching)
            .await
            .expect("a leader that still leads is not missed")
            .expect("no panic");
        last.release().await.expect("held");
    }
    let looks = fixture.client().await;
    for lock in mixed::locks(&looks.guarantees()) {
        nothing_left(&looks, lock).await;
    }
    recorder.quiesced();
}

async fn judge<F: Fixture>(history: &History, client: &Client) {
    let mut left = Vec::new();
    for lock in mixed::locks(&client.guarantees()) {
        left.extend(client.inspect(&Filter::Name(name(lock))).await.expect("answers"));
    }
    let promised = F::guarantees();
    let expected = Expectations {
        answer_within: PATIENCE,
        idle_at_most: PATIENCE / 2,
        queued_after: None,
        left: Some(left),
    };
    let mut stats = check_all(history, &promised, &expected).expect("every guarantee is kept");
    let excuses = Excuses::from_exclusion(history, &promised);
    stats.push(leaders(history, PATIENCE, &excuses).expect("the leader is known"));
    stats.iter().for_each(|stats| println!("{stats}"));
    enough_happened(history, &promised, &stats);
}

/// A check that looked at nothing has shown nothing.
fn enough_happened(history: &History, promised: &Guarantees, stats: &[Stats]) {
    let judged = |check| stats.iter().find(|stats| stats.check == check).map_or(0, |stats| stats.judged);
    assert!(judged("exclusion") > 3 && judged("progress") > 3, "too little happened");
    assert!(judged("leaders") > 3 || !promised.cells, "too few queries");
    for lock in mixed::locks(promised) {
        let lock: LockName = name(lock);
        assert!(history.holds_of(&lock).count() > 2, "there were hardly any holds of {lock:?}");
    }
}
