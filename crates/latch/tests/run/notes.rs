//! The note by which others know a command that holds or waits.

use crate::support::Place;

/// The note of the holder, without user and host.
fn shown(place: &Place, options: &[&str]) -> String {
    let run = ["run", "x"].into_iter().chain(options.iter().copied());
    let script = "touch up; exec sleep 60";
    let mut latch = place.latch(run.chain(["--", "/bin/sh", "-c", script, "--password=canary"]));
    let mut holder = latch.spawn().unwrap();
    crate::support::eventually("it holds", || place.path("up").exists());
    let note = place.inspect("x").unwrap().holders[0].note.as_str().to_owned();
    holder.kill().unwrap();
    holder.wait().unwrap();
    std::fs::remove_file(place.path("up")).unwrap();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let (who, text) = note.split_once(' ').unwrap();
    assert!(who.ends_with(&format!("@{host}")) && who.len() > host.len() + 1, "{note}");
    let text = text.strip_suffix(&format!(" (pid {})", holder.id()));
    text.unwrap_or_else(|| panic!("{note}")).to_owned()
}

#[test]
fn others_see_user_host_and_program_and_no_argument() {
    assert_eq!(shown(&Place::new(), &[]), "sh");
}

#[test]
fn arguments_are_shown_where_that_is_asked_for() {
    let note = shown(&Place::new(), &["--note-args"]);
    assert_eq!(note, "sh -c touch up; exec sleep 60 --password=canary");
}

#[test]
fn a_text_of_ones_own_stands_in_place_of_the_program() {
    assert_eq!(shown(&Place::new(), &["--note", "nightly report, ask Ann"]), "nightly report, ask Ann");
}
