//! `latch engines`: the guarantees of every engine.

use latchwork::Guarantees;
use latchwork::engine::Registry;
use serde::Serialize;

use crate::failure::Failure;
use crate::guarantees_view::GuaranteesView;
use crate::output::{Output, Report};
use crate::text_layout;

pub(crate) const AFTER_HELP: &str = "Needs no engine: the table is built into this binary.";

const LEGEND: [(&str, &str); 5] = [
    ("exclusive", "two holders are never both certain"),
    ("fenced only", "two may be certain for a while; a store that checks tokens is safe"),
    ("breaks", "two may be certain for a while, and no token tells them apart"),
    ("-", "cannot happen"),
    ("everywhere", "no lock stops a former holder from writing to a store that does not check the token"),
];

/// The engines that this binary was built with.
#[derive(Debug, Serialize)]
struct Engines {
    engines: Vec<GuaranteesView>,
    #[serde(skip)]
    promised: Vec<Guarantees>,
}

/// Prints the guarantees of every engine.
pub(crate) fn run(output: Output) -> Result<u8, Failure> {
    let promised = Registry::builtin().guarantees();
    output.print(&Engines { engines: promised.iter().map(GuaranteesView::new).collect(), promised })?;
    Ok(0)
}

impl Report for Engines {
    fn text(&self, width: Option<usize>) -> String {
        let blocks =
            self.promised.iter().map(|promised| text_layout::two_columns(&rows(promised), width) + "\n");
        blocks.collect::<String>()
            + &text_layout::two_columns(&LEGEND.map(|(word, means)| (word, means.to_owned())), width)
    }
}

/// In the words of GUARANTEES.md.
fn rows(promised: &Guarantees) -> Vec<(&'static str, String)> {
    let capabilities =
        promised.capabilities().map(|(label, can)| (label, if can { "yes" } else { "no" }.to_owned()));
    let faults = promised.faults.named().map(|(label, promise)| (label, promise.to_string()));
    let mut rows = vec![("engine", promised.engine.to_owned())];
    rows.extend(capabilities);
    rows.extend(faults);
    rows.extend(promised.details());
    rows
}
