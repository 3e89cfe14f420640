//! The generated part of GUARANTEES.md: two matrices, and a short table for each engine.

use latchwork::{Guarantees, Promise};

type Cell = fn(&Guarantees) -> String;

const CAPABILITIES: [(&str, Cell); 14] = [
    ("tokens", |g| yes_no(g.tokens.is_some())),
    ("tokens rise after data loss", |g| yes_no(g.tokens_survive_data_loss)),
    ("fair queue", |g| yes_no(g.fair)),
    ("lists waiters", |g| yes_no(g.lists_waiters)),
    ("wakes waiters", |g| yes_no(g.pushes)),
    ("tells a loss at once", |g| yes_no(g.tells_losses)),
    ("tells a revocation", |g| yes_no(g.tells_revocations)),
    ("readers and writers", |g| yes_no(g.read_write)),
    ("permits", |g| yes_no(g.permits)),
    ("cells, elections", |g| yes_no(g.cells)),
    ("owners", |g| yes_no(g.takes_over)),
    ("renews beside blocked code", |g| yes_no(g.survives_blocked_runtime)),
    ("ends with its session", |g| yes_no(g.lives_with_session)),
    ("`--keep-fd`", |g| yes_no(g.outlives_wrapper)),
];

const FAULTS: [(&str, Cell); 7] = [
    ("holder killed", |g| promise(g.faults.holder_crash)),
    ("holder paused past its lease", |g| promise(g.faults.holder_pause)),
    ("restart", |g| promise(g.faults.restart)),
    ("failover to a replica", |g| promise(g.faults.failover)),
    ("network cut", |g| promise(g.faults.partition)),
    ("wall clock set", |g| promise(g.faults.clock_step)),
    ("state deleted under a holder", |g| promise(g.faults.data_deleted)),
];

const DETAILS: [(&str, Cell); 5] = [
    ("token", |g| g.tokens.unwrap_or("none").to_owned()),
    ("ttl", |g| format!("{} to {}", duration(g.min_ttl), duration(g.max_ttl))),
    ("after the holder was killed, others wait", |g| g.dead_holder.to_owned()),
    ("watchers of cells are told", |g| g.watchers_told.to_owned()),
    ("beware", |g| g.beware.to_owned()),
];

/// The text, from what the engines say of themselves.
pub fn text(engines: &[Guarantees]) -> String {
    let mut page = "## What each engine can do\n\n".to_owned();
    page += &matrix(engines, &CAPABILITIES);
    page += "\n## What holds under a fault\n\n";
    page += &matrix(engines, &FAULTS);
    page += "\n## Each engine\n";
    for engine in engines {
        page += &format!("\n### {}\n\n| | |\n|---|---|\n", engine.engine);
        for (head, cell) in DETAILS {
            page += &format!("| {head} | {} |\n", cell(engine));
        }
    }
    page
}

/// One row for each engine.
fn matrix(engines: &[Guarantees], columns: &[(&str, Cell)]) -> String {
    let heads: Vec<_> = columns.iter().map(|(head, _)| *head).collect();
    let mut table = format!("| | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(columns.len()));
    for engine in engines {
        let cells: Vec<_> = columns.iter().map(|(_, cell)| cell(engine)).collect();
        // A heading on the same page.
        table += &format!("| [{0}](#{0}) | {1} |\n", engine.engine, cells.join(" | "));
    }
    table
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn promise(promise: Promise) -> String {
    promise.to_string()
}

fn duration(duration: std::time::Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds if seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        seconds => format!("{seconds} s"),
    }
}
