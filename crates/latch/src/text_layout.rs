//! Text in columns, and text truncated to a width. Widths are in characters.

use std::collections::{BTreeMap, BTreeSet};

/// Two columns: labels, and values that wrap at the right edge of the terminal.
pub(crate) fn two_columns(rows: &[(impl AsRef<str>, String)], width: Option<usize>) -> String {
    const GAP: usize = 2;
    let indent = rows.iter().map(|(label, _)| char_count(label.as_ref())).max().unwrap_or(0) + GAP;
    let max_width = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(MIN_VALUE_WIDTH));
    let mut text = String::new();
    for (label, value) in rows {
        let mut label = label.as_ref();
        for line in word_wrap(value, max_width) {
            text += &format!("{label:indent$}{line}\n");
            label = "";
        }
    }
    text
}

/// The least width of a column of values, however narrow the terminal is.
const MIN_VALUE_WIDTH: usize = 20;

/// Columns as wide as their widest cell, except the last, which is truncated at the right edge of the
/// terminal.
pub(crate) fn table<const N: usize>(rows: &[[String; N]], width: Option<usize>) -> String {
    const GAP: &str = "  ";
    let widest = |column: usize| rows.iter().map(|row| char_count(&row[column])).max().unwrap_or(0);
    let widths: Vec<_> = (0..N - 1).map(widest).collect();
    let mut text = String::new();
    for row in rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}{GAP}"));
        let line = padded.collect::<String>() + &row[N - 1];
        let line = line.trim_end();
        match width.filter(|width| char_count(line) > *width) {
            None => text.push_str(line),
            Some(width) => text.extend(line.chars().take(width.saturating_sub(1)).chain(['…'])),
        }
        text.push('\n');
    }
    text
}

/// At most `max_width` characters, with `…` in the middle in place of what is left out. Names often differ at
/// their ends.
pub(crate) fn truncate_middle(text: String, max_width: usize) -> String {
    let length = char_count(&text);
    if length <= max_width {
        return text;
    }
    let kept = max_width.saturating_sub(1);
    let end = kept / 2;
    let start = text.chars().take(kept - end);
    start.chain(['…']).chain(text.chars().skip(length - end)).collect()
}

/// Truncates different names to at most `max_width` characters each. `None` if two would look the same. Names
/// with the same start and end are shown from the part in which they begin to differ.
pub(crate) fn truncate_distinct(names: &[String], max_width: usize) -> Option<Vec<String>> {
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        alike.entry(truncate_middle(name.clone(), max_width)).or_default().push(at);
    }
    let mut shown = vec![String::new(); names.len()];
    for (text, members) in alike {
        let first = &names[members[0]];
        let same = members.iter().map(|at| common_prefix_length(first, &names[*at])).min().unwrap_or(0);
        for at in &members {
            shown[*at] =
                if members.len() == 1 { text.clone() } else { truncate_start(&names[*at], same, max_width) };
        }
    }
    let distinct = shown.iter().collect::<BTreeSet<_>>().len() == names.len();
    distinct.then_some(shown)
}

fn common_prefix_length(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// At most `max_width` characters, from the part that contains the character at `index`, and in any case with
/// that character.
fn truncate_start(text: &str, index: usize, max_width: usize) -> String {
    // The first half of the characters that truncate_middle() keeps.
    let start = max_width.saturating_sub(2).div_ceil(2);
    let part = text.chars().take(index).collect::<Vec<_>>().iter().rposition(|c| "/: ".contains(*c));
    let from = part.map_or(0, |at| at + 1).max((index + 1).saturating_sub(start));
    match from {
        0 => truncate_middle(text.to_owned(), max_width),
        _ => format!("…{}", truncate_middle(text.chars().skip(from).collect(), max_width.saturating_sub(1))),
    }
}

fn char_count(text: &str) -> usize {
    text.chars().count()
}

/// Breaks between words, and inside a word that fills a line. A line broken by the terminal would continue at
/// the left edge and look like a label.
fn word_wrap(text: &str, max_width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && char_count(&line) + 1 + char_count(word) > max_width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if char_count(&line) == max_width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_wrapped_beside_their_label() {
        let rows = [("short", "one".to_owned()), ("long label", "aaaa bbbb cccc dddd eeee ffff".to_owned())];
        assert_eq!(
            two_columns(&rows, Some(34)),
            "short       one\nlong label  aaaa bbbb cccc dddd\n            eeee ffff\n"
        );
        assert_eq!(two_columns(&rows, None).lines().count(), 2);
        let forged = [("held by", format!("{}token{}1", "x".repeat(25), "\u{a0}".repeat(3)))];
        assert!(!two_columns(&forged, Some(30)).lines().any(|line| line.starts_with("token")));
        assert!(two_columns(&forged, Some(30)).lines().all(|line| char_count(line) <= 30));
    }

    #[test]
    fn truncated_text_has_a_mark_and_keeps_both_ends() {
        let cut = |text: &str, max_width| truncate_middle(text.to_owned(), max_width);
        assert_eq!((cut("long", 3), cut("fits", 4)), ("l…g".into(), "fits".into()));
        assert_eq!(cut("orders/eu-central/warehouse/line-42", 18), "orders/eu…/line-42");
        assert_eq!(
            (cut("long", 1), cut("long", 0), cut("élan vital", 5)),
            ("…".into(), "…".into(), "él…al".into())
        );
    }

    #[test]
    fn names_with_the_same_start_and_end_are_shown_from_where_they_differ() {
        let name =
            |house: &str, line: u8| format!("nightly/eu-central/{house}/reconcile-inventory/line-{line}");
        let names =
            [name("warehouse-17", 1), name("warehouse-17", 2), name("warehouse-18", 2), "short".to_owned()];
        assert_eq!(
            truncate_distinct(&names, 26).unwrap(),
            [
                "nightly/eu-ce…ntory/line-1",
                "…warehouse-17…ntory/line-2",
                "…warehouse-18…ntory/line-2",
                "short"
            ]
        );
        // Of a part that is too long, the difference must stay.
        let long = ["a", "b"].map(|end| name(&format!("{}{end}", "x".repeat(60)), 1));
        let shown = truncate_distinct(&long, 26).unwrap();
        assert!(shown[0].contains("xa…") && shown[1].contains("xb…"), "{shown:?}");
        assert!(shown.iter().all(|name| char_count(name) == 26), "{shown:?}");
        assert_eq!(truncate_distinct(&["ab".to_owned(), "ac".to_owned()], 1), None);
        for max_width in 0..60 {
            let shown = truncate_distinct(&names, max_width);
            assert!(
                shown.is_none_or(|shown| shown.iter().all(|name| char_count(name) <= max_width)),
                "{max_width}"
            );
        }
    }

    #[test]
    fn columns_are_aligned_and_only_the_end_of_a_line_is_truncated() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["NAME", "N", "WHO"]), row(["é", "10", "somebody far away"])];
        assert_eq!(table(&rows, None), "NAME  N   WHO\né     10  somebody far away\n");
        assert_eq!(table(&rows, Some(14)), "NAME  N   WHO\né     10  som…\n");
    }
}
