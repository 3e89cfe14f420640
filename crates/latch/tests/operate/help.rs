//! Help, and the hints of usage errors.

use crate::support::{TestDir, assert_clean_error, end};

#[test]
fn every_subcommand_explains_itself() {
    let dir = TestDir::new();
    for (name, says) in [
        ("run", "Exit codes:"),
        ("status", "An unused name is a free lock"),
        ("ls", "Sorted by name"),
        ("revoke", "1 nothing was taken away"),
        ("release", "1 nothing was taken away"),
        ("cell", "1 not set"),
        ("elect", "its term"),
        ("engines", "Needs no engine"),
        ("completions", "bash-completion"),
    ] {
        let ended = end(dir.latch([name, "--help"]).env("COLUMNS", "200"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        assert!(ended.out.contains(says) && ended.out.contains("--json"), "{ended:?}");
        assert!(end(&mut dir.latch(["--help"])).out.contains(&format!("\n  {name} ")));
    }
}

#[test]
fn latch_without_arguments_lists_the_subcommands() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch([]));
    assert_clean_error(&ended, 64, "no subcommand given");
    for name in ["latch run NAME -- CMD", "status", "ls", "revoke", "engines", "completions", "latch --help"]
    {
        assert!(ended.err.contains(name), "{ended:?}");
    }
}

#[test]
fn a_misspelled_word_gets_a_suggestion() {
    let dir = TestDir::new();
    for (word, meant) in
        [("stauts", "'status'"), ("relase", "'release'"), ("engine", "'engines'"), ("runn", "'run'")]
    {
        assert_clean_error(&end(&mut dir.latch([word])), 64, meant);
    }
    assert_clean_error(&end(&mut dir.latch(["release", "x", "--froce"])), 64, "'--force'");
}

#[test]
fn a_usage_error_shows_the_usage_of_its_subcommand() {
    let dir = TestDir::new();
    for (arguments, usage) in [
        (&["status", "a", "b"][..], "hint: latch status [OPTIONS] [NAME]; more in latch status --help"),
        (&["ls", "a", "b"], "hint: latch ls [OPTIONS] [PREFIX]; more in latch ls --help"),
        (&["revoke"], "--reason"),
        (&["release"], "hint: latch release [OPTIONS] <NAME>; more in latch release --help"),
        (&["run", "x", "-E", "256", "--", "ls"], "more in latch run --help"),
    ] {
        assert_clean_error(&end(&mut dir.latch(arguments.iter().copied())), 64, usage);
    }
}
