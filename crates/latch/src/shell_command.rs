//! A command line that can be pasted into a shell.

use crate::cli::TargetOptions;
use crate::environment::without_password;
use crate::revoke::RevokeOptions;
use crate::sanitize::is_hidden;

/// The command line of this `latch revoke`.
pub(crate) fn revoke(options: &RevokeOptions, target: &TargetOptions) -> String {
    let mut words = vec!["latch".to_owned()];
    if let Some(url) = &target.url {
        words.extend(["--url".to_owned(), quoted(&without_password(url))]);
    }
    if let Some(file) = &target.url_file {
        words.extend(["--url-file".to_owned(), quoted(&file.to_string_lossy())]);
    }
    if target.system {
        words.push("--system".to_owned());
    }
    words.push("revoke".to_owned());
    words.extend(options.now.then(|| "--now".to_owned()));
    words.extend(options.foreign.then(|| "--foreign".to_owned()));
    words.push(format!("--reason={}", quoted(&options.reason)));
    if options.name.starts_with('-') {
        words.push("--".to_owned());
    }
    words.push(quoted(&options.name));
    words.join(" ")
}

/// Quotes one word for a shell. Hidden characters are escaped in the form that bash, zsh and ksh read.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains(is_hidden) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let escaped = word.chars().map(|c| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if is_hidden(c) => format!("\\U{:08x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_unchanged_after_the_shell_has_read_it() {
        for word in ["orders/42", "", "it's", "$(reboot)", "a b", "\\", "~", "x\u{202e}'\\y", "*", "数"] {
            let mut bash = std::process::Command::new("bash");
            bash.args(["-c", &format!("printf %s {}", quoted(word))]).env("LC_ALL", "C.UTF-8");
            assert_eq!(String::from_utf8_lossy(&bash.output().unwrap().stdout), word);
        }
    }
}
