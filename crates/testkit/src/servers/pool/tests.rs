use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::servers::process::Process;

/// A process that does nothing, and can be said to be sick.
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

/// Starting a server in one pool, and ending all, reaches into the others: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    lock(&ALONE)
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_server_is_leased_to_one_at_a_time_and_reused_after_that() {
    static POOL: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let (one, two) = (POOL.lease(), POOL.lease());
    let pids = [one.pid(), two.pid()];
    assert_ne!(pids[0], pids[1]);
    drop(one);
    assert_eq!(POOL.free(), 1);
    let again = POOL.lease();
    assert_eq!(again.pid(), pids[0], "the one that came back, and no third");
    drop((again, two));
    assert_eq!(POOL.free(), 2);
    POOL.end_free();
}

#[test]
fn a_sick_server_ends_instead_of_coming_back() {
    static POOL: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let sick = POOL.lease();
    let pid = sick.pid();
    sick.sick.store(true, Ordering::Relaxed);
    drop(sick);
    assert!(!runs(pid));
    assert_eq!(POOL.free(), 0);
}

#[test]
fn the_server_of_a_case_that_panics_ends_instead_of_coming_back() {
    static POOL: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let leased = POOL.lease();
    let pid = leased.pid();
    let panicked = std::thread::spawn(move || {
        let _leased = leased;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    panicked.join().expect_err("it panicked");
    assert!(!runs(pid));
    assert_eq!(POOL.free(), 0);
}

#[test]
fn in_the_end_no_process_of_any_pool_is_left() {
    static FIRST: Pool<Sleeper> = Pool::new(Sleeper::start);
    static SECOND: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
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
fn a_start_ends_the_free_servers_of_other_kinds_and_no_others() {
    static OLD: Pool<Sleeper> = Pool::new(Sleeper::start);
    static NEW: Pool<Sleeper> = Pool::new(Sleeper::start);
    let _alone = alone();
    let (free, busy) = (OLD.lease(), OLD.lease());
    let pids = [free.pid(), busy.pid()];
    drop(free);
    let first = NEW.lease();
    assert_eq!(pids.map(runs), [false, true]);
    drop(first);
    drop(busy);
    drop(NEW.lease());
    assert!(runs(pids[1]), "nothing was started");
    end_all();
}
