//! `latch engines`: what every engine promises.

use latchwork::Guarantees;
use latchwork::engine::Registry;
use serde::Serialize;

use crate::failure::Failure;
use crate::guarantees_view::GuaranteesView;
use crate::layout;
use crate::output::{Output, Report};

pub(crate) const AFTER_HELP: &str = "Needs no engine: it shows what this latch was built with.";

const LEGEND: [(&str, &str); 5] = [
    ("exclusive", "two holders are never both certain"),
    ("fenced only", "two may be certain for a while; a store that checks tokens is safe"),
    ("breaks", "two may be certain for a while, and no token tells them apart"),
    ("-", "cannot happen"),
    ("everywhere", "no lock stops a former holder from writing to a store that does not check the token"),
];

/// The engines this `latch` was built with.
#[derive(Debug, Serialize)]
struct Engines {
    engines: Vec<GuaranteesView>,
    #[serde(skip)]
    promised: Vec<Guarantees>,
}

/// Prints them.
pub(crate) fn run(output: Output) -> Result<u8, Failure> {
    let promised = Registry::builtin().guarantees();
    output.print(&Engines { engines: promised.iter().map(GuaranteesView::new).collect(), promised })?;
    Ok(0)
}

impl Report for Engines {
    fn text(&self, width: Option<usize>) -> String {
        let blocks = self.promised.iter().map(|promised| layout::pairs(&rows(promised), width) + "\n");
        blocks.collect::<String>()
            + &layout::pairs(&LEGEND.map(|(word, means)| (word, means.to_owned())), width)
    }
}

/// Read back from the table of GUARANTEES.md, so that both say the same in the same words.
fn rows(promised: &Guarantees) -> Vec<(String, String)> {
    let table = Guarantees::table(std::slice::from_ref(promised));
    let cells = |line: &str| {
        let (label, value) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        let label = if label.is_empty() { "engine" } else { label };
        Some((label.replace('`', ""), value.to_owned()))
    };
    table.lines().filter_map(cells).collect()
}
