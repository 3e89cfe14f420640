//! Text in columns.

use std::collections::{BTreeMap, BTreeSet};

/// Two columns: labels, and values that wrap at the right edge of the terminal.
pub(crate) fn pairs(rows: &[(impl AsRef<str>, String)], width: Option<usize>) -> String {
    const GAP: usize = 2;
    let indent = rows.iter().map(|(label, _)| length(label.as_ref())).max().unwrap_or(0) + GAP;
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(NARROWEST));
    let mut text = String::new();
    for (label, value) in rows {
        let mut label = label.as_ref();
        for line in wrapped(value, room) {
            text += &format!("{label:indent$}{line}\n");
            label = "";
        }
    }
    text
}

/// A value is never squeezed into less, whatever the terminal.
const NARROWEST: usize = 20;

/// Columns as wide as their widest cell, except the last, which is cut at the right edge of the terminal.
pub(crate) fn table<const N: usize>(rows: &[[String; N]], width: Option<usize>) -> String {
    const GAP: &str = "  ";
    let widest = |column: usize| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
    let widths: Vec<_> = (0..N - 1).map(widest).collect();
    let mut text = String::new();
    for row in rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}{GAP}"));
        let line = padded.collect::<String>() + &row[N - 1];
        let line = line.trim_end();
        let room = width.filter(|width| length(line) > *width);
        match room {
            None => text.push_str(line),
            Some(room) => text.extend(line.chars().take(room.saturating_sub(1)).chain(['…'])),
        }
        text.push('\n');
    }
    text
}

/// At most `room` characters, with a mark in the middle where something is missing. Names often differ at their
/// ends.
pub(crate) fn shortened(text: String, room: usize) -> String {
    let length = length(&text);
    if length <= room {
        return text;
    }
    let kept = room.saturating_sub(1);
    let end = kept / 2;
    let start = text.chars().take(kept - end);
    start.chain(['…']).chain(text.chars().skip(length - end)).collect()
}

/// Different names, each in at most `room` characters. `None` if two would look the same. Names that are the
/// same at both ends are shown from the part in which they begin to differ.
pub(crate) fn shortened_apart(names: &[String], room: usize) -> Option<Vec<String>> {
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        alike.entry(shortened(name.clone(), room)).or_default().push(at);
    }
    let mut shown = vec![String::new(); names.len()];
    for (text, members) in alike {
        let first = &names[members[0]];
        let same = members.iter().map(|at| common_start(first, &names[*at])).min().unwrap_or(0);
        for at in &members {
            shown[*at] = if members.len() == 1 { text.clone() } else { from_part(&names[*at], same, room) };
        }
    }
    let distinct = shown.iter().collect::<BTreeSet<_>>().len() == names.len();
    distinct.then_some(shown)
}

fn common_start(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// At most `room` characters, from the part in which the character at `index` is, and in any case with that
/// character.
fn from_part(text: &str, index: usize, room: usize) -> String {
    // The first half of what shortened() keeps.
    let start = room.saturating_sub(2).div_ceil(2);
    let part = text.chars().take(index).collect::<Vec<_>>().iter().rposition(|c| "/: ".contains(*c));
    let from = part.map_or(0, |at| at + 1).max((index + 1).saturating_sub(start));
    match from {
        0 => shortened(text.to_owned(), room),
        _ => format!("…{}", shortened(text.chars().skip(from).collect(), room.saturating_sub(1))),
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Breaks between words, and inside a word that fills a line: left to the terminal, it would go on at the left edge and
/// pass for a label.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && length(&line) + 1 + length(word) > room {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if length(&line) == room {
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
    fn values_wrap_beside_their_label() {
        let rows = [("short", "one".to_owned()), ("long label", "aaaa bbbb cccc dddd eeee ffff".to_owned())];
        assert_eq!(
            pairs(&rows, Some(34)),
            "short       one\nlong label  aaaa bbbb cccc dddd\n            eeee ffff\n"
        );
        assert_eq!(pairs(&rows, None).lines().count(), 2);
        let forged = [("held by", format!("{}token{}1", "x".repeat(25), "\u{a0}".repeat(3)))];
        assert!(!pairs(&forged, Some(30)).lines().any(|line| line.starts_with("token")));
        assert!(pairs(&forged, Some(30)).lines().all(|line| length(line) <= 30));
    }

    #[test]
    fn what_is_shortened_says_so_and_keeps_both_ends() {
        let cut = |text: &str, room| shortened(text.to_owned(), room);
        assert_eq!((cut("long", 3), cut("fits", 4)), ("l…g".into(), "fits".into()));
        assert_eq!(cut("orders/eu-central/warehouse/line-42", 18), "orders/eu…/line-42");
        assert_eq!(
            (cut("long", 1), cut("long", 0), cut("élan vital", 5)),
            ("…".into(), "…".into(), "él…al".into())
        );
    }

    #[test]
    fn names_that_are_the_same_at_both_ends_are_shown_from_where_they_differ() {
        let name =
            |house: &str, line: u8| format!("nightly/eu-central/{house}/reconcile-inventory/line-{line}");
        let names =
            [name("warehouse-17", 1), name("warehouse-17", 2), name("warehouse-18", 2), "short".to_owned()];
        assert_eq!(
            shortened_apart(&names, 26).unwrap(),
            [
                "nightly/eu-ce…ntory/line-1",
                "…warehouse-17…ntory/line-2",
                "…warehouse-18…ntory/line-2",
                "short"
            ]
        );
        // In a part that is too long, the difference is what must stay.
        let long = ["a", "b"].map(|end| name(&format!("{}{end}", "x".repeat(60)), 1));
        let shown = shortened_apart(&long, 26).unwrap();
        assert!(shown[0].contains("xa…") && shown[1].contains("xb…"), "{shown:?}");
        assert!(shown.iter().all(|name| length(name) == 26), "{shown:?}");
        assert_eq!(shortened_apart(&["ab".to_owned(), "ac".to_owned()], 1), None);
        for room in 0..60 {
            let shown = shortened_apart(&names, room);
            assert!(shown.is_none_or(|shown| shown.iter().all(|name| length(name) <= room)), "{room}");
        }
    }

    #[test]
    fn columns_align_and_only_the_end_of_a_line_is_cut() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["NAME", "N", "WHO"]), row(["é", "10", "somebody far away"])];
        assert_eq!(table(&rows, None), "NAME  N   WHO\né     10  somebody far away\n");
        assert_eq!(table(&rows, Some(14)), "NAME  N   WHO\né     10  som…\n");
    }
}
