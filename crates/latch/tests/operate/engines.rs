//! `latch engines`.

use std::process::Command;

use latchwork::engine::Registry;

use crate::helpers::document;
use crate::pty::Pty;
use crate::support::{TestDir, end};

const GUARANTEES: &str = include_str!("../../../../GUARANTEES.md");

#[test]
fn every_engine_and_every_line_of_the_guarantees_is_shown() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch(["engines"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let blocks: Vec<_> = ended.out.split("\n\n").collect();
    let engines: Vec<_> = Registry::builtin().guarantees().iter().map(|promised| promised.engine).collect();
    assert_eq!(blocks.len(), engines.len() + 1, "one per engine, and the legend: {ended:?}");
    // The heads of the two matrices, and the first column of an engine's own table.
    let heads = GUARANTEES.lines().filter_map(|line| line.strip_prefix("| | ")?.strip_suffix(" |"));
    let heads = heads.filter(|line| !line.is_empty()).flat_map(|line| line.split(" | "));
    let own = GUARANTEES.split("### ").nth(1).expect("there are engines");
    let own = own.lines().filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" | ")?.0));
    let labels: Vec<_> = heads.chain(own).collect();
    assert!(labels.len() > 25);
    for (block, engine) in blocks.iter().zip(engines) {
        assert!(block.lines().next().unwrap().ends_with(&format!(" {engine}")), "{block}");
        for label in &labels {
            assert!(block.lines().any(|line| line.starts_with(label)), "no {label:?} in {block}");
        }
    }
    assert!(!ended.out.contains('|') && !ended.out.contains('`'), "no markdown on a terminal");
}

#[test]
fn json_has_every_promise_as_data() {
    let dir = TestDir::new();
    let engines = document(&mut dir.latch(["engines", "--json"]));
    for (at, promised) in Registry::builtin().guarantees().iter().enumerate() {
        let engine = &engines["engines"][at];
        assert_eq!(engine["engine"], promised.engine);
        assert_eq!(engine["fair"], promised.fair);
        assert_eq!(engine["tokens"].as_str(), promised.tokens);
        assert_eq!(engine["min_ttl_ms"], promised.min_ttl.as_millis() as u64);
        assert_eq!(engine["faults"].as_object().unwrap().len(), 7);
        let pause = promised.faults.holder_pause.to_string().replace(' ', "_");
        assert_eq!(engine["faults"]["holder_pause"], pause);
    }
    assert_eq!(engines["engines"].as_array().unwrap().len(), Registry::builtin().guarantees().len());
}

#[test]
fn engines_needs_no_engine() {
    let dir = TestDir::new();
    let ended = end(dir.latch(["engines"]).env("LATCH_URL", "nonsense").env_remove("HOME"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(!dir.path("locks.db").exists());
}

#[test]
fn on_a_terminal_it_wraps_at_the_right_edge() {
    let dir = TestDir::new();
    let mut shell = Command::new("sh");
    let script = format!("stty cols 70 rows 24; {} engines; echo done", env!("CARGO_BIN_EXE_latch"));
    shell.args(["-c", &script]).current_dir(dir.path(""));
    let mut pty = Pty::start(&shell);
    pty.see("done");
    let screen = pty.screen();
    assert!(screen.contains("cannot happen"), "{screen}");
    let longest = screen.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
    assert!((50..=70).contains(&longest), "{longest}: {screen}");
}
