//! The generated part of GUARANTEES.md: two matrices, and a short table for each engine.

use latchwork::Guarantees;

/// The text, from what the engines say of themselves.
pub fn text(engines: &[Guarantees]) -> String {
    let mut page = "## What each engine can do\n\n".to_owned();
    page += &matrix(engines, |engine| {
        engine.capabilities().map(|(head, can)| (head, if can { "yes" } else { "no" }.to_owned())).to_vec()
    });
    page += "\n## What holds under a fault\n\n";
    page += &matrix(engines, |engine| {
        engine.faults.named().map(|(head, promise)| (head, promise.to_string())).to_vec()
    });
    page += "\n## Each engine\n";
    for engine in engines {
        page += &format!("\n### {}\n\n| | |\n|---|---|\n", engine.engine);
        for (head, text) in engine.details() {
            page += &format!("| {head} | {text} |\n");
        }
    }
    page
}

/// One row for each engine, whose name leads to its table.
fn matrix(engines: &[Guarantees], row: impl Fn(&Guarantees) -> Vec<(&'static str, String)>) -> String {
    let mut table = String::new();
    for engine in engines {
        let (heads, cells): (Vec<_>, Vec<_>) = row(engine).into_iter().unzip();
        if table.is_empty() {
            table = format!("| | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
        }
        table += &format!("| [{0}](#{0}) | {1} |\n", engine.engine, cells.join(" | "));
    }
    table
}
