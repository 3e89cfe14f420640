//! `./test`, after it has installed the packages: stages of cargo, and every test case of the workspace,
//! scheduled by its requirements.

mod binaries;
mod budget;
mod budget_socket;
mod previous;
mod report;
mod requirements;
mod scheduler;
mod stages;
mod standstills;
mod test_process;
mod versions;

use std::env;
use std::process::ExitCode;

use report::Report;
use scheduler::Selection;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let report = Report::new();
    let ran = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => everything(report),
        ["quick"] => quick(report),
        ["versions"] => test_versions(report, "", None),
        ["versions", server] => test_versions(report, server, None),
        ["versions", server, name] => test_versions(report, server, Some((name, None))),
        ["versions", server, name, case] => test_versions(report, server, Some((name, Some(case)))),
        [name] if !name.starts_with('-') => named(report, name, None),
        [name, case] if !name.starts_with('-') => named(report, name, Some(case.to_owned())),
        _ => Err(format!(
            "unknown arguments {arguments:?}; usage: ./test [quick | versions [SERVER] | ENGINE [CASE] | SUITE [CASE]]"
        )),
    };
    if let Err(error) = ran {
        eprintln!("test: {error}");
        return ExitCode::from(2);
    }
    if report.conclude() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Everything that a change must pass.
fn everything(report: &'static Report) -> Result<(), String> {
    stages::formatting(report);
    stages::clippy(report);
    stages::clippy_of_each_engine_alone(report);
    stages::documentation(report);
    stages::examples(report);
    cases(report, "--lib --bins --tests", &Selection::All)?;
    stages::an_engine_that_is_not_compiled_in(report);
    stages::doctests(report);
    Ok(())
}

/// The cases that take a few minutes, for use during work on a change.
fn quick(report: &'static Report) -> Result<(), String> {
    stages::formatting(report);
    stages::clippy(report);
    cases(report, "--lib --bins --test conformance --test redlock", &Selection::Quick)
}

/// The conformance of one engine over each of its connections, or one suite.
fn named(report: &'static Report, name: &str, case: Option<String>) -> Result<(), String> {
    cases(report, "--lib --bins --tests", &Selection::Named { name: name.to_owned(), case })
}

/// The tests of servers of other versions: all that concern them, or one engine or suite.
fn test_versions(
    report: &'static Report,
    server: &str,
    part: Option<(&str, Option<&str>)>,
) -> Result<(), String> {
    let part =
        part.map(|(name, case)| Selection::Named { name: name.to_owned(), case: case.map(str::to_owned) });
    match stages::build(report, "--lib --bins --tests") {
        Some(binaries) => {
            versions::run(report, &binaries, server, part.as_ref()).map_err(|error| error.to_string())
        }
        None => Ok(()),
    }
}

fn cases(report: &'static Report, targets: &str, wanted: &Selection) -> Result<(), String> {
    // Before the build of the tests: both put a `latch` into the target folder, and today's must be the last.
    let previous = match wanted.needs_the_previous_release() {
        true => previous::build(report),
        false => None,
    };
    let environment: Vec<_> = previous.into_iter().collect();
    match stages::build(report, targets) {
        Some(binaries) => {
            scheduler::run(&binaries, wanted, &environment, report).map_err(|error| error.to_string())
        }
        // The report has the reason.
        None => Ok(()),
    }
}
