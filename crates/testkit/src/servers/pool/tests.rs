use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::servers::process::Process;

/// A process that does nothing, and can be marked unhealthy.
struct Sleeper {
    process: Process,
    sick: AtomicBool,
}

impl Sleeper {
    fn start() -> Self {
        let process = Process::start(Command::new("sleep").arg("600"), "coreutils", Path::new("/dev/null"));
        Self { process, sick: AtomicBool::new(false) }
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Pooled for Sleeper {
    fn is_healthy(&self) -> bool {
        !self.sick.load(Ordering::Relaxed)
    }
}

/// The tests run one at a time: starting a server in one pool, and ending all, affects the others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    lock(&ALONE)
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn concurrent_and_later_lessees_share_a_server() {
    static POOL: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let (one, two) = (POOL.lease(), POOL.lease());
    let pid = one.pid();
    assert_eq!(two.pid(), pid);
    drop((one, two));
    assert!(runs(pid));
    assert_eq!(POOL.lease().pid(), pid);
    POOL.end_unused();
    assert!(!runs(pid));
}

#[test]
fn no_new_lessee_gets_an_unhealthy_server_and_it_ends_with_its_last_user() {
    static POOL: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let sick = POOL.lease();
    let pid = sick.pid();
    sick.sick.store(true, Ordering::Relaxed);
    let sound = POOL.lease();
    assert_ne!(sound.pid(), pid);
    assert!(runs(pid));
    drop(sick);
    assert!(!runs(pid));
    drop(sound);
    POOL.end_unused();
}

#[test]
fn no_new_lessee_gets_the_server_of_a_case_that_panicked() {
    static POOL: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let (leased, other) = (POOL.lease(), POOL.lease());
    let pid = leased.pid();
    let panicked = std::thread::spawn(move || {
        let _leased = leased;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    panicked.join().expect_err("the task panicked");
    assert!(runs(pid), "the server is still leased");
    assert_ne!(POOL.lease().pid(), pid);
    drop(other);
    assert!(!runs(pid));
    POOL.end_unused();
}

#[test]
fn end_all_leaves_no_process_of_any_pool() {
    static FIRST: Pool<Sleeper> = Pool::new(Sleeper::start);
    static SECOND: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    // The second is in use while the first starts and vice versa, so neither ends the other.
    let servers = [FIRST.lease(), SECOND.lease(), FIRST.lease()];
    let pids: Vec<_> = servers.iter().map(|server| server.pid()).collect();
    drop(servers);
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop(EndsAll);
    assert!(!pids.iter().any(|pid| runs(*pid)));
    let after = FIRST.lease();
    assert!(runs(after.pid()), "a pool can be used after its end");
    drop(after);
    end_all();
}

#[test]
fn a_start_ends_the_unused_servers_of_other_kinds() {
    static DONE: Pool<Sleeper> = Pool::new(Sleeper::start);
    static BUSY: Pool<Sleeper> = Pool::new(Sleeper::start);
    static NEW: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let busy = BUSY.lease();
    let done = DONE.lease();
    let pids = [done.pid(), busy.pid()];
    drop(done);
    drop(NEW.lease());
    assert_eq!(pids.map(runs), [false, true]);
    drop(busy);
    drop(NEW.lease());
    assert!(runs(pids[1]), "nothing was started");
    end_all();
}

#[test]
fn kinds_that_start_at_the_same_time_do_not_wait_for_each_other() {
    static ONE: Pool<Sleeper> = Pool::new(|| slowly(&TWO));
    static TWO: Pool<Sleeper> = Pool::new(|| slowly(&ONE));
    let _alone = alone();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(ONE.lease()));
        scope.spawn(|| drop(TWO.lease()));
    });
    end_all();
}

/// Starts while the other pool starts as well.
fn slowly(other: &'static Pool<Sleeper>) -> Sleeper {
    while other.server.try_lock().is_ok_and(|server| server.is_none()) {
        std::thread::yield_now();
    }
    Sleeper::start()
}
