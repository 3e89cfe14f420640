//! Fixture by case, one line each. A case for something that an engine cannot do, by its guarantees, does not exist for that
//! engine; a table says what that is. A missing server is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use latchwork::engine::Registry;
use libtest_mimic::{Arguments, Trial};
use testkit::fixture::Kind;
use testkit::servers::pool::EndsAll;
use testkit::{Fixture, cases, for_each_engine};

const CASE_LIMIT: Duration = Duration::from_secs(120);
/// Held exclusively by cases that no other may disturb.
static SERVER: RwLock<()> = RwLock::new(());
/// Schemes that lead to an engine which has a fixture under its usual scheme; `postgres_faults` connects with them.
const OTHER_SPELLINGS: [&str; 2] = ["postgresql", "postgresql+tls"];
const CONTRACT: &str = concat!(
    include_str!("../../latchwork/src/engine/mod.rs"),
    include_str!("../../latchwork/src/engine/cells.rs")
);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--kinds") {
        return print_kinds();
    }
    // Before any server starts: what it does not understand ends the process.
    let mut arguments = Arguments::from_args();
    // Most of a case is waiting for leases to end.
    arguments.test_threads.get_or_insert(12);
    let pooled = EndsAll;
    let (mut trials, mut alone_trials) = (Vec::new(), Vec::new());
    let mut coverage = Vec::new();
    let (mut schemes, mut rules) = (BTreeSet::new(), BTreeSet::new());
    macro_rules! collect {
        ($fixture:ty) => {
            schemes.extend(<$fixture>::KINDS.iter().map(|kind| kind.scheme));
            rules.extend(cases::all::<$fixture>().iter().flat_map(|case| case.rules.iter().copied()));
            for kind in <$fixture>::KINDS {
                if !is_wanted::<$fixture>(kind, arguments.filter.as_deref()) {
                    continue;
                }
                let (cases, covered) = trials_of::<$fixture>(kind);
                for (alone, trial) in cases {
                    if alone { &mut alone_trials } else { &mut trials }.push(trial);
                }
                coverage.push(covered);
            }
        };
    }
    for_each_engine!(collect);
    trials.push(Trial::test("every engine has a fixture", move || {
        let spellings = |scheme: &&str| !OTHER_SPELLINGS.contains(scheme);
        let known: BTreeSet<_> = Registry::builtin().schemes().filter(spellings).collect();
        (known == schemes).then_some(()).ok_or(format!("engines {known:?}, fixtures {schemes:?}").into())
    }));
    trials.push(Trial::test("every contract rule has a case", move || {
        let written: BTreeSet<_> = CONTRACT
            .lines()
            .filter_map(|line| line.strip_prefix("//! | ")?.split(' ').next())
            // Clippy enforces C3: crates/latchwork/clippy.toml.
            .filter(|id| id.starts_with(['C', 'V']) && *id != "C3")
            .collect();
        (written == rules && !rules.is_empty())
            .then_some(())
            .ok_or(format!("rules {written:?}, cases {rules:?}").into())
    }));
    // Last of all, or the others would wait for each of them, and each of them for the slowest of the others.
    trials.append(&mut alone_trials);
    if !arguments.list && !arguments.exact {
        print!("{}", Coverage::table(&coverage));
    }
    let is_wanted = |trial: &&Trial| {
        arguments.filter.as_deref().is_none_or(|filter| match arguments.exact {
            true => trial.name() == filter,
            false => trial.name().contains(filter),
        })
    };
    testkit::budget::announce(trials.iter().filter(is_wanted).count());
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Nothing is dropped by an exit.
    drop(pooled);
    conclusion.exit();
}

/// Whether the filter selects a case of this kind. The servers of other kinds are not started.
fn is_wanted<F: Fixture>(kind: &Kind, filter: Option<&str>) -> bool {
    let Some(filter) = filter else { return true };
    cases::all::<F>().iter().any(|case| format!("{}::{}", kind.name, case.name).contains(filter))
}

/// What is asked of one way to reach an engine.
struct Coverage {
    kind: &'static str,
    cases: usize,
    /// What it cannot do, and how many cases that would take.
    cannot: BTreeMap<&'static str, usize>,
    /// Cases that do not depend on how the engine is reached, and run for another kind of it.
    elsewhere: usize,
}

impl Coverage {
    /// One line for each kind.
    fn table(coverage: &[Self]) -> String {
        let width = coverage.iter().map(|covered| covered.kind.len()).max().unwrap_or(0);
        let line = |covered: &Self| {
            let Self { kind, cases, cannot, elsewhere } = covered;
            let mut beside: Vec<_> =
                cannot.iter().map(|(reason, cases)| format!("{reason} ({cases})")).collect();
            if *elsewhere > 0 {
                beside.push(format!("{elsewhere} run where it is reached in another way"));
            }
            format!("covers: {kind:width$}  {cases:3} cases  {}\n", beside.join("; "))
        };
        let lines: String = coverage.iter().map(line).collect();
        format!(
            "engine, what is asked of it, and what it cannot do by its guarantees (cases for that):\n{lines}\n"
        )
    }
}

/// One name a line. No server is started for it.
fn print_kinds() {
    macro_rules! print {
        ($fixture:ty) => {
            <$fixture>::KINDS.iter().for_each(|kind| println!("{}", kind.name));
        };
    }
    for_each_engine!(print);
}

/// Its cases, each with whether no other may run beside it.
fn trials_of<F: Fixture>(kind: &'static Kind) -> (Vec<(bool, Trial)>, Coverage) {
    let promised = F::guarantees();
    let probe = runtime().block_on(F::begin_as(kind));
    let mut trials = Vec::new();
    let mut covered = Coverage { kind: kind.name, cases: 0, cannot: BTreeMap::new(), elsewhere: 0 };
    for case in cases::all::<F>() {
        if let Some(reason) = (case.unless)(&promised, &probe) {
            *covered.cannot.entry(reason).or_default() += 1;
            continue;
        }
        if !kind.is_thorough && !case.is_basic {
            covered.elsewhere += 1;
            continue;
        }
        covered.cases += 1;
        let name = format!("{}::{}", kind.name, case.name);
        let trial = Trial::test(name.clone(), move || {
            let (_alone, _beside) = match case.alone {
                true => (Some(SERVER.write()), None),
                false => (None, Some(SERVER.read())),
            };
            let _share = testkit::budget::share(case.cores, &name);
            runtime().block_on(async {
                let running = (case.run)(Arc::new(F::begin_as(kind).await));
                tokio::time::timeout(CASE_LIMIT, running)
                    .await
                    .map_err(|_| format!("hangs for {CASE_LIMIT:?}").into())
            })
        });
        trials.push((case.alone, trial));
    }
    (trials, covered)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}
