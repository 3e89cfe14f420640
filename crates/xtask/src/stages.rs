//! Stages that are one command of cargo each.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::binaries::Binary;
use crate::report::{Failure, Report};

/// Engines that can be compiled in alone: the features that `all-engines` turns on.
fn engines() -> impl Iterator<Item = &'static str> {
    let manifest = include_str!("../../latchwork/Cargo.toml");
    let list = manifest.split_once("\nall-engines = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.expect("latchwork has a feature for all engines");
    list.split(',').map(|engine| engine.trim().trim_matches('"')).filter(|engine| !engine.is_empty())
}

pub(crate) fn formatting(report: &Report) {
    cargo(report, "formatting", &["fmt --all --check"]);
}

pub(crate) fn clippy(report: &Report) {
    cargo(report, "clippy", &["clippy --quiet --workspace --all-targets -- -D warnings"]);
}

pub(crate) fn clippy_of_each_engine_alone(report: &Report) {
    let clippy = |engine: &str| {
        format!("clippy --quiet -p latchwork --no-default-features --features {engine} -- -D warnings")
    };
    let commands: Vec<_> = engines().map(clippy).collect();
    cargo(report, "clippy, each engine alone", &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

pub(crate) fn documentation(report: &Report) {
    cargo(report, "documentation", &["doc --quiet --workspace --no-deps"]);
}

/// Before the test that runs them: cargo builds none for a test that is named.
pub(crate) fn examples(report: &Report) {
    cargo(report, "examples", &["build --quiet --workspace --examples"]);
}

pub(crate) fn doctests(report: &Report) {
    cargo(report, "doctests", &["test --quiet -p latchwork --doc"]);
}

/// With the whole workspace, or cargo would compile everything once more for fewer features.
pub(crate) fn build(report: &Report, targets: &str) -> Option<Vec<Binary>> {
    let arguments =
        format!("test --workspace --no-run --quiet --message-format json-render-diagnostics {targets}");
    let printed = cargo(report, "build of the tests", &[&arguments])?;
    Some(printed.lines().filter_map(Binary::from_message).collect())
}

pub(crate) fn an_engine_that_is_not_compiled_in(report: &Report) {
    let arguments = "test --quiet -p latchwork --no-default-features --features memory --test registry";
    cargo(report, "an engine that is not compiled in", &[arguments]);
}

/// A stage that runs this command with another target folder.
pub(crate) fn cargo_into(report: &Report, name: &str, arguments: &str, target: &Path) -> Option<String> {
    commands(report, name, &[arguments], Some(target))
}

/// A stage that failed before its command could run.
pub(crate) fn fails<T>(report: &Report, name: &str, why: &str) -> Option<T> {
    let now = Instant::now();
    let (name, output, repeat) = (name.to_owned(), why.to_owned(), "./test".to_owned());
    report.stage(&name.clone(), || Err(Failure { name, output, repeat, began: now, ended: now }))
}

fn cargo(report: &Report, name: &str, arguments: &[&str]) -> Option<String> {
    commands(report, name, arguments, None)
}

/// Runs the commands in order until one fails, and returns what the last one printed on its standard output.
fn commands(report: &Report, name: &str, commands: &[&str], target: Option<&Path>) -> Option<String> {
    report.stage(name, || {
        let mut printed = String::new();
        for arguments in commands {
            let began = Instant::now();
            let mut command = Command::new("cargo");
            command.args(arguments.split(' ')).env("RUSTDOCFLAGS", "-D warnings");
            command.envs(target.map(|target| ("CARGO_TARGET_DIR", target)));
            let failed = |output| Failure {
                name: name.to_owned(),
                output,
                repeat: format!("cargo {arguments}"),
                began,
                ended: Instant::now(),
            };
            let output = command.output().map_err(|error| failed(error.to_string()))?;
            printed = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                let text =
                    printed.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n");
                return Err(failed(format!("{text}\n{errors}")));
            }
            report.count(passed_in(&printed));
        }
        Ok(printed)
    })
}

/// The sum over all lines of a test runner's `test result`.
fn passed_in(printed: &str) -> usize {
    let results = printed.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_engines_are_read_from_the_manifest() {
        let engines: Vec<_> = super::engines().collect();
        assert!(engines.contains(&"memory") && engines.contains(&"zookeeper"), "{engines:?}");
    }

    #[test]
    fn passed_cases_are_counted() {
        assert_eq!(super::passed_in("test result: ok. 4 passed; 0 failed\nx\ntest result: ok. 2 passed;"), 6);
    }
}
