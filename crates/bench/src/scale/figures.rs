//! Named figures, as text for a pipe, a table and JSON.

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

/// Whole numbers have no decimal places.
fn whole_or_figure(value: f64) -> String {
    if value.fract() == 0.0 && value < 1_000.0 { format!("{value}") } else { figure(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_back_from_a_pipe_and_invalid_ones_are_errors() {
        let figures = Figures::new([("bytes/lock", 1_234.5), ("lost", 0.0)]);
        assert_eq!(Figures::read(&figures.lines()).expect("whole"), figures);
        assert_eq!(figures.object(), "{\"bytes/lock\":1234.5,\"lost\":0}");
        assert!(Figures::read("lost").is_err() && Figures::read("lost\tmany").is_err());
    }
}
