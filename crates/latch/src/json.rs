//! JSON as `latch` writes it: one line, without characters that a terminal would act on.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::sanitize::is_hidden;

/// The value on one line. Hidden characters are written as `\uXXXX`, so that the parsed text is unchanged.
pub(crate) fn line(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Cannot fail: the structs of this crate have string keys only, and a write to a Vec succeeds.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut bytes, EscapingFormatter));
    bytes.push(b'\n');
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Compact JSON with hidden characters escaped.
struct EscapingFormatter;

impl Formatter for EscapingFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for c in fragment.chars() {
            if is_hidden(c) {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            } else {
                write!(writer, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_parsed_back_unchanged_and_the_line_has_no_hidden_character() {
        let text = "plain é🔒 \u{1b}[2J\u{9b}31m\n\"\\ \u{202e}txt\u{e0041}\u{7f}";
        let line = line(&text);
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        assert!(!line.trim_end().contains(is_hidden), "{line:?}");
    }
}
