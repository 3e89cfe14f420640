//! The note by which others know a command that holds or waits.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;
use latchwork::engine::Note;
use nix::unistd::{User, geteuid, gethostname};

/// The longest text beside user, host and process id, in characters.
const TEXT_LENGTH: usize = 100;

/// How the command is described to others.
#[derive(Args, Clone, Debug)]
pub(crate) struct NoteOptions {
    /// A text for others, beside user and host, in latch status and ls [default: the program's name]
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Also show the command's arguments to others
    #[arg(long, conflicts_with = "note")]
    note_args: bool,
}

impl NoteOptions {
    /// `alice@web1 report.sh (pid 4242)`. Arguments may be secrets: they are shown only on request.
    pub(crate) fn describe(&self, command: &[OsString]) -> String {
        let text = match &self.note {
            Some(text) => text.clone(),
            None => program_and_arguments(command, self.note_args),
        };
        let user = User::from_uid(geteuid()).ok().flatten();
        let user = user.map_or_else(|| format!("uid{}", geteuid()), |user| user.name);
        let host = gethostname().unwrap_or_default();
        fitted(&format!("{user}@{}", host.to_string_lossy()), &text, std::process::id())
    }
}

fn program_and_arguments(command: &[OsString], with_arguments: bool) -> String {
    let Some((program, arguments)) = command.split_first() else { return String::new() };
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let arguments = arguments.iter().filter(|_| with_arguments).map(|word| word.to_string_lossy());
    let words: Vec<_> = std::iter::once(name).chain(arguments).collect();
    words.join(" ")
}

/// A note that is too long loses the end of its text, and not the process id.
fn fitted(who: &str, text: &str, pid: u32) -> String {
    let end = format!(" (pid {pid})");
    let room = Note::MAX_BYTES.saturating_sub(who.len() + 1 + end.len());
    let mut shown = String::new();
    for c in text.chars().take(TEXT_LENGTH) {
        if shown.len() + c.len_utf8() > room {
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
    fn a_long_text_is_cut_and_the_process_id_stays() {
        assert_eq!(fitted("a@web1", "report.sh", 42), "a@web1 report.sh (pid 42)");
        assert_eq!(fitted("a@web1", "", 42), "a@web1 (pid 42)");
        for text in ["x".repeat(500), "🔒".repeat(500)] {
            let note = fitted(&format!("{}@{}", "u".repeat(32), "h".repeat(64)), &text, 4_194_304);
            assert!(note.ends_with(" (pid 4194304)"), "{note}");
            assert_eq!(Note::new(&note).as_str(), note);
        }
    }
}
