//! Sanitizes untrusted text (holder notes, lock names, paths, arguments) for a terminal.

/// Escapes characters that would move the cursor, forge a second line, or appear as something else.
pub(crate) fn sanitize(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' | '\0' => shown.extend(c.escape_debug()),
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// A lock name, quoted if it could be mistaken for several words.
pub(crate) fn as_one_word(name: &str) -> String {
    let shown = sanitize(name);
    if !shown.contains(|c: char| c.is_whitespace() || c == '"') {
        return shown;
    }
    format!("\"{}\"", shown.replace('"', "\\\""))
}

/// Whether a terminal would act on this character, or reorder or hide the text around it.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' // zero width, and direction marks
            | '\u{2028}'..='\u{202e}' // line ends, and directions that override
            | '\u{2060}'..='\u{206f}' // joiners, and directions that isolate
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}' // tags, which no font shows
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(sanitize("a\u{1b}[2J\nb\u{9b}é🔒"), "a\\u{1b}[2J\\nb\\u{9b}é🔒");
    }

    #[test]
    fn characters_that_reorder_or_hide_text_are_escaped_and_others_stay() {
        for c in
            "\u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}".chars()
        {
            assert_eq!(sanitize(&format!("a{c}b")), format!("a{}b", c.escape_unicode()));
        }
        for harmless in ["naïve", "e\u{301}", "数据", "שלום", "❤\u{fe0f}", "\\u{202e}"] {
            assert_eq!(sanitize(harmless), harmless);
        }
    }

    #[test]
    fn a_name_with_spaces_stays_one_word() {
        for (name, shown) in [
            ("a/b", "a/b"),
            ("a  5s", "\"a  5s\""),
            ("a \u{202e}", "\"a \\u{202e}\""),
            (" ", "\" \""),
            ("\"", "\"\\\"\""),
        ] {
            assert_eq!(as_one_word(name), shown);
        }
    }
}
