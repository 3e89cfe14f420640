//! A Python of the tests' own, with one package in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use tempfile::TempDir;

/// Its interpreter. Made beside the folder of the test's own binary when it is first wanted, and used again from then on.
/// `package` names a release (`redis==8.1.0`): another one may lock in another way.
pub(super) fn python(package: &str) -> PathBuf {
    // Two tests that want the same must not both make it.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let test = std::env::current_exe().expect("a test has a path");
    let target =
        test.parent().and_then(Path::parent).expect("tests run from target/<profile>/deps").to_owned();
    let venv = target.join(format!("testkit-venv-{package}"));
    if !venv.exists() {
        make(&target, &venv, package);
    }
    venv.join("bin/python")
}

/// Renamed when it is whole: another process may be making the same.
fn make(target: &Path, venv: &Path, package: &str) {
    let folder = TempDir::new_in(target).expect("the build's folder can be written");
    let making = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&making), "install the package python3-venv");
    let mut pip = Command::new(making.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
    run(&mut pip, "is the Python package index within reach?");
    // Fails if another process was faster, whose work is as good.
    if std::fs::rename(&making, venv).is_err() {
        assert!(venv.exists(), "the build's folder can be written");
    }
}

fn run(command: &mut Command, hint: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; {hint}"));
    let printed =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?} failed; {hint}\n{printed}");
}
