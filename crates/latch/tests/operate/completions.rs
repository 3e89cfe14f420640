//! `latch completions`.

use std::fs;
use std::process::Command;

use crate::support::{TestDir, assert_clean_error, end};

const SUBCOMMANDS: [&str; 7] = ["run", "status", "ls", "revoke", "release", "engines", "completions"];

#[test]
fn the_bash_script_is_one_and_knows_every_subcommand() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch(["completions", "bash"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    fs::write(dir.path("latch.bash"), &ended.out).unwrap();
    let check = end(Command::new("bash").arg("-n").arg(dir.path("latch.bash")));
    assert_eq!((check.code, check.err.as_str()), (Some(0), ""));
    let ask =
        "source latch.bash; COMP_WORDS=(latch ''); COMP_CWORD=1; _latch latch '' latch; echo ${COMPREPLY[@]}";
    let offered = end(Command::new("bash").args(["-c", ask]).current_dir(dir.path(""))).out;
    let offered: Vec<_> = offered.split_whitespace().collect();
    for name in SUBCOMMANDS {
        assert!(offered.contains(&name), "{name} is not among {offered:?}");
    }
}

#[test]
fn every_shell_gets_its_script_without_any_engine() {
    let dir = TestDir::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = end(dir.latch(["completions", shell]).env("LATCH_URL", "nonsense").env_remove("HOME"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert!(SUBCOMMANDS.iter().all(|name| ended.out.contains(name)), "{shell}");
    }
    assert!(!dir.path("locks.db").exists());
    assert_clean_error(&end(&mut dir.latch(["completions", "csh"])), 64, "zsh");
}
