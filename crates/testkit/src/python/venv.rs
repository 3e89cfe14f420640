//! A Python environment for the tests, with one package in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Its interpreter. It is created beside the folder of the test's own binary at the first use, and reused
/// from then on. `package` names a release (`redis==8.1.0`), because another one may lock differently.
pub(super) fn python(package: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target =
        test.parent().and_then(Path::parent).expect("tests run from target/<profile>/deps").to_owned();
    let venv = target.join(format!("testkit-venv-{package}"));
    // Several tests, each in a process of its own, need it at once; one of them creates it. The lock ends
    // with the file.
    let making = File::create(target.join("testkit-venv.lock")).expect("the build's folder can be written");
    making.lock().expect("a local file can be locked");
    if !venv.exists() {
        make(&target, &venv, package);
    }
    venv.join("bin/python")
}

/// Renamed once it is complete: a process that is killed in between leaves nothing that looks complete.
fn make(target: &Path, venv: &Path, package: &str) {
    let folder = TempDir::new_in(target).expect("the build's folder can be written");
    let making = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&making), "install the package python3-venv");
    let mut pip = Command::new(making.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    run(&mut pip, "is the Python package index within reach?");
    std::fs::rename(&making, venv).expect("the build's folder can be written");
}

fn run(command: &mut Command, hint: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; {hint}"));
    let printed =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?} failed; {hint}\n{printed}");
}
