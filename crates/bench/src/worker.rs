//! A child process: it gets ready, waits for the start message, runs its tasks, and writes their samples to
//! stdout.

use std::io::{self, BufWriter, Write};

use latchwork::clock::Moment;
use tokio::runtime::{Builder, Runtime};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::{self, AsyncLock, BlockingLock};
use crate::floors::{self, Doorbell, Flock, Statements};
use crate::library_locks;
use crate::local_handoff;
use crate::plan::{RuntimeFlavor, Side, Workload};
use crate::sample::WorkerResult;
use crate::window::Window;

/// Number of pairs before a raw side is ready, so that files and caches are warm.
const WARM_UP: u32 = 8;

pub(crate) fn run(job: &WorkerJob) -> Result<()> {
    let result = match job.side {
        Side::Statements => statements(job)?,
        Side::Bell => bell(job)?,
        Side::Flock => threads(job)?,
        side => match side.engine() {
            Some(engine) => awaited(job, library_locks::locks(job, engine))?,
            None => awaited_floor(job)?,
        },
    };
    result.write(&mut BufWriter::new(io::stdout().lock()))?;
    Ok(())
}

fn awaited_floor(job: &WorkerJob) -> Result<WorkerResult> {
    match job.side {
        Side::MutexMulti | Side::MutexCurrent => awaited(job, async { Ok(floors::mutexes(job)) }),
        Side::ScriptsMulti | Side::ScriptsCurrent => awaited(job, floors::scripts(job)),
        Side::BareMulti | Side::BareCurrent => awaited(job, floors::bare(job)),
        Side::BlpopMulti | Side::BlpopCurrent => awaited(job, floors::blpop(job)),
        Side::MemcachedMeta => awaited(job, floors::meta(job)),
        Side::MariadbStatements => awaited(job, floors::mariadb_row_locks(job)),
        Side::PostgresStatements => awaited(job, floors::postgres_row_locks(job)),
        Side::SessionBytes | Side::SessionBlocks => awaited(job, floors::session_locks(job)),
        Side::SessionStatements => awaited(job, floors::advisory_locks(job)),
        #[cfg(feature = "peers")]
        Side::ZookeeperCreate => awaited(job, crate::peers::zookeeper::nodes(job)),
        #[cfg(feature = "peers")]
        Side::ZookeeperBytes => awaited(job, crate::peers::zookeeper::raw_connections(job)),
        #[cfg(feature = "peers")]
        Side::ZookeeperLock => awaited(job, crate::peers::zookeeper::curator_locks(job)),
        #[cfg(feature = "peers")]
        Side::Rslock | Side::RslockQuick => awaited(job, crate::peers::rslock_locks(job)),
        #[cfg(feature = "peers")]
        Side::DistributedLock => awaited(job, crate::peers::distributed_lock::locks(job)),
        #[cfg(feature = "peers")]
        Side::EtcdTxn => awaited(job, crate::peers::etcd::txns(job)),
        #[cfg(feature = "peers")]
        Side::EtcdQueue => awaited(job, crate::peers::etcd::queues(job)),
        #[cfg(feature = "peers")]
        Side::EtcdLock => awaited(job, crate::peers::etcd::locks(job)),
        other => Err(format!("{other:?} does not run in a process of this program").into()),
    }
}

/// Creates the locks in the runtime on which their tasks will run.
fn awaited<L: AsyncLock>(
    job: &WorkerJob,
    locks: impl Future<Output = Result<Vec<L>>>,
) -> Result<WorkerResult> {
    let runtime = runtime(job)?;
    let locks = runtime.block_on(locks)?;
    tasks(job, &runtime, locks)
}

fn runtime(job: &WorkerJob) -> Result<Runtime> {
    let mut builder = match job.side.flavor() {
        RuntimeFlavor::Multi => Builder::new_multi_thread(),
        RuntimeFlavor::Current => Builder::new_current_thread(),
    };
    Ok(builder.enable_all().build()?)
}

/// Reports that this process is ready, and waits for the window that the parent sends.
fn window(job: &WorkerJob) -> Result<Window> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"!")?;
    stdout.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let window = Window::new(Moment::from_micros(line.trim().parse()?), job.millis);
    window.wait_for_start();
    Ok(window)
}

/// One task for each lock.
fn tasks<L: AsyncLock>(job: &WorkerJob, runtime: &Runtime, locks: Vec<L>) -> Result<WorkerResult> {
    let (window, pace) = (window(job)?, job.side.pacing(job.workload));
    runtime.block_on(async {
        if job.workload == Workload::Free && !job.side.is_on_a_wire() {
            let lock = locks.into_iter().next().ok_or("no lock to count on")?;
            return tokio::spawn(contend::count(lock, window)).await?;
        }
        if job.workload.is_passing() {
            return local_handoff::run(locks, window).await;
        }
        let tasks = (0..).zip(locks);
        let running: Vec<_> =
            tasks.map(|(task, lock)| tokio::spawn(contend::contend(lock, task, window, pace))).collect();
        let mut samples = Vec::new();
        for task in running {
            samples.append(&mut task.await??);
        }
        Ok(WorkerResult::of(samples))
    })
}

/// One loop over all names: SQLite has one writer at a time, so more of them could only be slower.
fn statements(job: &WorkerJob) -> Result<WorkerResult> {
    let (db, tasks) = (floors::open(&job.folder)?, job.workload.tasks());
    warm_up(&mut Statements::new(&db, vec!["bench/warm".into()])?)?;
    let names = (0..tasks).map(|task| job.workload.lock_name(task)).collect();
    let mut pair = Statements::new(&db, names)?;
    let window = window(job)?;
    if job.workload == Workload::Free {
        return contend::count_blocking(&mut pair, window);
    }
    let task = |sample: usize| sample as u64 % u64::from(tasks);
    let samples = contend::contend_blocking(&mut pair, task, window, job.side.pacing(job.workload))?;
    Ok(WorkerResult::of(samples))
}

fn bell(job: &WorkerJob) -> Result<WorkerResult> {
    let db = floors::open(&job.folder)?;
    warm_up(&mut Statements::new(&db, vec![format!("bench/warm/{}", job.index)])?)?;
    let mut bell = Doorbell::new(&db, &job.folder, job.index, job.workload.lock_name(0))?;
    let window = window(job)?;
    let samples = contend::contend_blocking(&mut bell, |_| 0, window, job.side.pacing(job.workload))?;
    Ok(WorkerResult::of(samples))
}

/// One thread with its own open file for each task.
fn threads(job: &WorkerJob) -> Result<WorkerResult> {
    let tasks = u64::from(job.workload.tasks());
    let locks = (0..tasks).map(|_| Flock::open(&job.folder)).collect::<Result<Vec<_>>>()?;
    let (window, pace) = (window(job)?, job.side.pacing(job.workload));
    let running: Vec<_> = (0..)
        .zip(locks)
        .map(|(task, mut lock)| {
            std::thread::spawn(move || contend::contend_blocking(&mut lock, |_| task, window, pace))
        })
        .collect();
    let mut samples = Vec::new();
    for thread in running {
        samples.append(&mut thread.join().map_err(|_| "a thread panicked")??);
    }
    Ok(WorkerResult::of(samples))
}

fn warm_up(lock: &mut impl BlockingLock) -> Result<()> {
    for _ in 0..WARM_UP {
        lock.acquire()?;
        lock.release()?;
    }
    Ok(())
}
