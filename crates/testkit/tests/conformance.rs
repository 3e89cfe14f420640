//! Fixture by case, one line each. A missing capability is ignored with its reason; a missing server is a failure.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use latchwork::engine::Registry;
use libtest_mimic::{Arguments, Trial};
use testkit::fixture::Kind;
use testkit::servers::pool::EndsAll;
use testkit::{Fixture, cases, for_each_engine};

const CASE_LIMIT: Duration = Duration::from_secs(120);
/// Cases that start many processes would starve the short leases of others, and nobody could count what a server is asked.
static MACHINE: RwLock<()> = RwLock::new(());
const CONTRACT: &str = concat!(
    include_str!("../../latchwork/src/engine/mod.rs"),
    include_str!("../../latchwork/src/engine/cells.rs")
);

fn main() {
    // Before any server starts: what it does not understand ends the process.
    let mut arguments = Arguments::from_args();
    // Most of a case is waiting for leases to end.
    arguments.test_threads.get_or_insert(12);
    let pooled = EndsAll;
    let (mut trials, mut alone_trials) = (Vec::new(), Vec::new());
    let (mut schemes, mut rules) = (BTreeSet::new(), BTreeSet::new());
    macro_rules! collect {
        ($fixture:ty) => {
            schemes.extend(<$fixture>::KINDS.iter().map(|kind| kind.scheme));
            rules.extend(cases::all::<$fixture>().iter().flat_map(|case| case.rules.iter().copied()));
            for (alone, trial) in <$fixture>::KINDS.iter().flat_map(trials_of::<$fixture>) {
                if alone { &mut alone_trials } else { &mut trials }.push(trial);
            }
        };
    }
    for_each_engine!(collect);
    trials.push(Trial::test("every engine has a fixture", move || {
        let known: BTreeSet<_> = Registry::builtin().schemes().collect();
        (known == schemes).then_some(()).ok_or(format!("engines {known:?}, fixtures {schemes:?}").into())
    }));
    trials.push(Trial::test("every contract rule has a case", move || {
        let written: BTreeSet<_> = CONTRACT
            .lines()
            .filter_map(|line| line.strip_prefix("//! | ")?.split(' ').next())
            .filter(|id| id.starts_with(['C', 'V']))
            .collect();
        (written == rules && !rules.is_empty())
            .then_some(())
            .ok_or(format!("rules {written:?}, cases {rules:?}").into())
    }));
    // Last of all, or the others would wait for each of them, and each of them for the slowest of the others.
    trials.append(&mut alone_trials);
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Nothing is dropped by an exit.
    drop(pooled);
    conclusion.exit();
}

/// Its cases, each with whether it needs the machine for itself.
fn trials_of<F: Fixture>(kind: &'static Kind) -> Vec<(bool, Trial)> {
    let promised = F::guarantees();
    let probe = runtime().block_on(F::begin_as(kind));
    let trial = |case: cases::Case<F>| {
        let name = format!("{}::{}", kind.name, case.name);
        let is_left_out = !kind.is_thorough && !case.is_basic;
        let elsewhere = is_left_out.then_some("runs where the same engine is reached in another way");
        let trial = match (case.unless)(&promised, &probe).or(elsewhere) {
            Some(reason) => {
                Trial::test(name, || Ok(())).with_ignored_flag(true).with_kind(format!("ignored: {reason}"))
            }
            None => Trial::test(name, move || {
                let (_alone, _beside) = match case.alone {
                    true => (Some(MACHINE.write()), None),
                    false => (None, Some(MACHINE.read())),
                };
                runtime().block_on(async {
                    let running = (case.run)(Arc::new(F::begin_as(kind).await));
                    tokio::time::timeout(CASE_LIMIT, running)
                        .await
                        .map_err(|_| format!("hangs for {CASE_LIMIT:?}").into())
                })
            }),
        };
        (case.alone, trial)
    };
    cases::all::<F>().into_iter().map(trial).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
