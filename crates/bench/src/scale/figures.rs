//! Named figures, as they go through a pipe and to the reader.

use crate::Result;
use crate::report::{figure, number};

/// Figures in the order in which they are printed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Figures(Vec<(String, f64)>);

impl Figures {
    pub(super) fn new<const N: usize>(figures: [(&str, f64); N]) -> Self {
        Self(figures.map(|(name, value)| (name.to_owned(), value)).to_vec())
    }

    /// One line each, for [`Figures::read`].
    pub(super) fn lines(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect()
    }

    pub(super) fn read(lines: &str) -> Result<Self> {
        let figure = |line: &str| -> Result<_> {
            let (name, value) = line.split_once('\t').ok_or("a figure has no value")?;
            Ok((name.to_owned(), value.parse()?))
        };
        Ok(Self(lines.lines().map(figure).collect::<Result<_>>()?))
    }

    pub(super) fn add(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), value));
    }

    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    pub(super) fn table(&self) -> String {
        self.0.iter().map(|(name, value)| format!("  {name:24}{:>12}\n", whole_or_figure(*value))).collect()
    }

    pub(super) fn object(&self) -> String {
        let fields: Vec<_> =
            self.0.iter().map(|(name, value)| format!("\"{name}\":{}", number(*value))).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Counts have no places.
fn whole_or_figure(value: f64) -> String {
    if value.fract() == 0.0 && value < 1_000.0 { format!("{value}") } else { figure(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_their_way_through_a_pipe_and_broken_ones_are_refused() {
        let figures = Figures::new([("bytes/lock", 1_234.5), ("lost", 0.0)]);
        assert_eq!(Figures::read(&figures.lines()).expect("whole"), figures);
        assert_eq!(figures.object(), "{\"bytes/lock\":1234.5,\"lost\":0}");
        assert!(Figures::read("lost").is_err() && Figures::read("lost\tmany").is_err());
    }
}
