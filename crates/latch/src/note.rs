//! The note that describes a holder or waiter in `latch status` and `latch ls`.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;
use latchwork::engine::Note;
use nix::unistd::{User, geteuid, gethostname};

/// The greatest length of the text beside user, host and process id, in characters.
const MAX_TEXT_CHARS: usize = 100;

/// The options that set the note.
#[derive(Args, Clone, Debug)]
pub(crate) struct NoteOptions {
    /// A text that latch status and ls show beside user and host [default: the program's name]
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Also show the command's arguments in latch status and ls
    #[arg(long, conflicts_with = "note")]
    note_args: bool,
}

impl NoteOptions {
    /// `alice@web1 report.sh (pid 4242)`. Arguments may be secrets, so they are shown only on request.
    pub(crate) fn describe(&self, command: &[OsString]) -> String {
        let text = match &self.note {
            Some(text) => text.clone(),
            None => program_and_arguments(command, self.note_args),
        };
        let user = User::from_uid(geteuid()).ok().flatten();
        let user = user.map_or_else(|| format!("uid{}", geteuid()), |user| user.name);
        let host = gethostname().unwrap_or_default();
        truncated_note(&format!("{user}@{}", host.to_string_lossy()), &text, std::process::id())
    }
}

fn program_and_arguments(command: &[OsString], with_arguments: bool) -> String {
    let Some((program, arguments)) = command.split_first() else { return String::new() };
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let arguments = arguments.iter().filter(|_| with_arguments).map(|word| word.to_string_lossy());
    let words: Vec<_> = std::iter::once(name).chain(arguments).collect();
    words.join(" ")
}

/// Truncates the text of a note that is too long, and keeps the process id.
fn truncated_note(who: &str, text: &str, pid: u32) -> String {
    let end = format!(" (pid {pid})");
    let max_bytes = Note::MAX_BYTES.saturating_sub(who.len() + 1 + end.len());
    let mut shown = String::new();
    for c in text.chars().take(MAX_TEXT_CHARS) {
        if shown.len() + c.len_utf8() > max_bytes {
            break;
        }
        shown.push(c);
    }
    if shown.is_empty() { format!("{who}{end}") } else { format!("{who} {shown}{end}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_truncated_and_the_process_id_stays() {
        assert_eq!(truncated_note("a@web1", "report.sh", 42), "a@web1 report.sh (pid 42)");
        assert_eq!(truncated_note("a@web1", "", 42), "a@web1 (pid 42)");
        for text in ["x".repeat(500), "🔒".repeat(500)] {
            let note = truncated_note(&format!("{}@{}", "u".repeat(32), "h".repeat(64)), &text, 4_194_304);
            assert!(note.ends_with(" (pid 4194304)"), "{note}");
            assert_eq!(Note::new(&note).as_str(), note);
        }
    }
}
