//! JSON as `latch` writes it: one line, and nothing in it that a terminal would act on.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::sanitize::is_hidden;

/// The value on one line. What it says is left as it is: hidden characters are only written as `\uXXXX`.
pub(crate) fn line(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Our own structs have string keys only, and a Vec takes everything: there is nothing that can fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut bytes, Visible));
    bytes.push(b'\n');
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Compact, with hidden characters spelled out.
struct Visible;

impl Formatter for Visible {
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
    fn every_text_survives_and_nothing_hidden_is_in_the_line() {
        let text = "plain é🔒 \u{1b}[2J\u{9b}31m\n\"\\ \u{202e}txt\u{e0041}\u{7f}";
        let line = line(&text);
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        assert!(!line.trim_end().contains(is_hidden), "{line:?}");
    }
}
