//! The note of a holder or waiter.

use crate::support::TestDir;

/// The note of the holder, without user and host.
fn shown(dir: &TestDir, options: &[&str]) -> String {
    let run = ["run", "x"].into_iter().chain(options.iter().copied());
    let script = "touch up; exec sleep 60";
    let mut latch = dir.latch(run.chain(["--", "/bin/sh", "-c", script, "--password=canary"]));
    let mut holder = latch.spawn().unwrap();
    crate::support::eventually("it holds", || dir.path("up").exists());
    let note = dir.inspect("x").unwrap().holders[0].note.as_str().to_owned();
    holder.kill().unwrap();
    holder.wait().unwrap();
    std::fs::remove_file(dir.path("up")).unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let (who, text) = note.split_once(' ').unwrap();
    assert!(who.ends_with(&format!("@{host}")) && who.len() > host.len() + 1, "{note}");
    let text = text.strip_suffix(&format!(" (pid {})", holder.id()));
    text.unwrap_or_else(|| panic!("{note}")).to_owned()
}

#[test]
fn the_note_has_user_host_and_program_and_no_argument() {
    assert_eq!(shown(&TestDir::new(), &[]), "sh");
}

#[test]
fn arguments_are_shown_with_note_args() {
    let note = shown(&TestDir::new(), &["--note-args"]);
    assert_eq!(note, "sh -c touch up; exec sleep 60 --password=canary");
}

#[test]
fn the_text_of_the_note_option_replaces_the_program() {
    assert_eq!(shown(&TestDir::new(), &["--note", "nightly report, ask Ann"]), "nightly report, ask Ann");
}
