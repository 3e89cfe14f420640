//! Text in columns.

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
    fn columns_align_and_only_the_end_of_a_line_is_cut() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["NAME", "N", "WHO"]), row(["é", "10", "somebody far away"])];
        assert_eq!(table(&rows, None), "NAME  N   WHO\né     10  somebody far away\n");
        assert_eq!(table(&rows, Some(14)), "NAME  N   WHO\né     10  som…\n");
    }
}
