//! Every example runs, on the embedded default.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn every_example_runs_on_sqlite() {
    let root: PathBuf = concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into();
    // With the whole workspace, as the tests are: nothing is compiled for other features.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--examples", "--message-format=json"])
        .current_dir(&root)
        .output()
        .expect("cargo is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let programs: Vec<_> = messages
        .lines()
        .filter(|line| line.contains("\"kind\":[\"example\"]"))
        .filter_map(|line| line.split("\"executable\":\"").nth(1)?.split('"').next())
        .collect();
    let sources = std::fs::read_dir(root.join("crates/latchwork/examples")).expect("readable").count();
    assert_eq!(programs.len(), sources, "{messages}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for program in programs {
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        let ended = Command::new(program).arg(url).output().expect("it was built");
        let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success(), "{program} ended with {}\n{out}{err}", ended.status);
    }
}
