//! `latch ls`.

use std::process::Command;

use crate::helpers::{Background, document};
use crate::pty::Pty;
use crate::support::{TestDir, end};

fn hold_all(dir: &TestDir, names: &[&str]) -> Vec<Background> {
    names.iter().map(|name| Background::holding(dir, name)).collect()
}

#[test]
fn every_lock_in_use_has_one_line_and_the_lines_are_sorted() {
    let dir = TestDir::new();
    let _holders = hold_all(&dir, &["orders/2", "a", "orders/10", "b"]);
    let _waiters = [Background::waiting(&dir, "a"), Background::waiting(&dir, "a")];
    let ended = end(&mut dir.latch(["ls"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let rows: Vec<Vec<_>> = ended.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "NAME HELD FOR LEASE LEFT WAITING HOLDER");
    let names: Vec<_> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(names, ["a", "b", "orders/10", "orders/2"]);
    let before_the_note =
        |row: &Vec<&str>| row[row.iter().position(|word| word.contains('@')).unwrap() - 1].to_owned();
    let waiting: Vec<_> = rows[1..].iter().map(before_the_note).collect();
    assert_eq!(waiting, ["2", "0", "0", "0"], "{ended:?}");
}

#[test]
fn a_prefix_selects() {
    let dir = TestDir::new();
    let _holders = hold_all(&dir, &["orders/2", "order", "orders%"]);
    let names = |prefix: &str| {
        let locks = document(&mut dir.latch(["ls", "--json", prefix]));
        let names =
            locks["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("orders"), ["orders%", "orders/2"]);
    assert_eq!(names("orders/"), ["orders/2"]);
    assert_eq!(names(""), ["order", "orders%", "orders/2"]);
    assert!(names("Orders").is_empty());
}

#[test]
fn columns_survive_awkward_names() {
    let dir = TestDir::new();
    let names = [
        "x".repeat(512),
        "a  5s  30s  0  root@evil x (pid 1)".into(),
        "naïve".into(),
        "\u{202e}rtl".into(),
        "\"".into(),
    ];
    let _holders = hold_all(&dir, &names.each_ref().map(String::as_str));
    let ended = end(&mut dir.latch(["ls"]));
    let column = |line: &str, word: &str| line[..line.rfind(word).unwrap()].chars().count();
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(lines.len(), 1 + names.len(), "{ended:?}");
    for line in &lines[1..] {
        let note = &line[..line.rfind('@').unwrap()];
        let user = note.rsplit(' ').next().unwrap();
        assert_eq!(column(line, &format!("{user}@")), column(lines[0], "HOLDER"), "{line}");
    }
    assert!(
        ended.out.contains("\"a  5s  30s  0  root@evil x (pid 1)\"") && ended.out.contains("\\u{202e}rtl")
    );
}

#[test]
fn on_a_terminal_every_lock_stays_one_line() {
    let dir = TestDir::new();
    let _holders = hold_all(&dir, &[&"x".repeat(512), "short"]);
    let mut shell = Command::new("sh");
    let script = format!("stty cols 70 rows 24; {} ls; echo done", env!("CARGO_BIN_EXE_latch"));
    shell.args(["-c", &script]).current_dir(dir.path("")).env("LATCH_URL", dir.url());
    let mut pty = Pty::start(&shell);
    pty.see("done");
    let screen = pty.screen();
    let lines: Vec<_> = screen.lines().map(str::trim_end).collect();
    assert!(
        lines[0].ends_with("HOLDER") && lines[1].starts_with("short ") && lines[2].contains("x…x"),
        "{screen}"
    );
    assert!(lines.iter().all(|line| line.chars().count() <= 70) && lines[3] == "done", "{screen}");
}

#[test]
fn names_that_are_cut_on_a_terminal_still_differ() {
    let dir = TestDir::new();
    let names = [
        "orders/eu-central-1/warehouse-17/line-41",
        "orders/eu-central-1/warehouse-17/line-42",
        "orders/eu-central-1/warehouse-18/line-42",
    ];
    let _holders = hold_all(&dir, &names);
    let mut shell = Command::new("sh");
    let script = format!("stty cols 80 rows 24; {} ls; echo done", env!("CARGO_BIN_EXE_latch"));
    shell.args(["-c", &script]).current_dir(dir.path("")).env("LATCH_URL", dir.url());
    let mut pty = Pty::start(&shell);
    pty.see("done");
    let screen = pty.screen();
    let shown: Vec<_> = screen.lines().skip(1).take(3).map(|line| line.split("  ").next().unwrap()).collect();
    let differ: std::collections::BTreeSet<_> = shown.iter().collect();
    assert_eq!(differ.len(), 3, "{screen}");
    assert!(shown.iter().all(|name| name.starts_with("orders/") && name.contains('…')), "{screen}");
    assert!(shown[0].ends_with("line-41") && shown[1].ends_with("line-42"), "{screen}");
    assert!(screen.lines().all(|line| line.trim_end().chars().count() <= 80), "{screen}");
}

#[test]
fn names_that_differ_in_their_middle_leave_room_for_the_other_columns() {
    let dir = TestDir::new();
    let name = |house: u8, line: u8| {
        format!("nightly/eu-central-1/warehouse-{house}/reconcile-inventory-with-ledger/line-{line}")
    };
    let names = [name(17, 41), name(17, 42), name(18, 42)];
    let _holders = hold_all(&dir, &names.each_ref().map(String::as_str));
    let mut shell = Command::new("sh");
    let script = format!("stty cols 80 rows 24; {} ls; echo done", env!("CARGO_BIN_EXE_latch"));
    shell.args(["-c", &script]).current_dir(dir.path("")).env("LATCH_URL", dir.url());
    let mut pty = Pty::start(&shell);
    pty.see("done");
    let screen = pty.screen();
    let lines: Vec<_> = screen.lines().map(str::trim_end).collect();
    assert!(lines[0].contains("HELD FOR  LEASE LEFT  WAITING  HOLDER"), "{screen}");
    let shown: Vec<_> = lines[1..4].iter().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(shown.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{screen}");
    assert!(shown[1].contains("warehouse-17") && shown[2].contains("warehouse-18"), "{screen}");
    assert!(lines[1..4].iter().all(|line| line.contains('@') && line.chars().count() <= 80), "{screen}");
}

#[test]
fn an_empty_list_is_a_notice_on_stderr_and_no_error() {
    let dir = TestDir::new();
    for (arguments, says) in [(&["ls"][..], "no lock is held"), (&["ls", "or\nders"], "\"or\\nders\"")] {
        let ended = end(&mut dir.latch(arguments.iter().copied()));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""));
        assert!(ended.err.starts_with("latch: ") && ended.err.contains(says), "{ended:?}");
    }
    assert_eq!(document(&mut dir.latch(["ls", "--json"])), serde_json::json!({"locks": []}));
}

#[test]
fn ls_in_json_has_the_same_keys_for_each_lock_as_status() {
    let dir = TestDir::new();
    let _holders = hold_all(&dir, &["a", "b"]);
    let locks = document(&mut dir.latch(["ls", "--json"]));
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        let one = document(&mut dir.latch(["status", name, "--json"]));
        let listed = &locks["locks"][at];
        assert_eq!(listed["name"], name);
        assert_eq!(listed["holders"][0]["token"], one["holders"][0]["token"]);
        assert_eq!(keys(listed), keys(&one));
        assert_eq!(keys(&listed["holders"][0]), keys(&one["holders"][0]));
    }
}

fn keys(value: &serde_json::Value) -> Vec<&String> {
    value.as_object().unwrap().keys().collect()
}
