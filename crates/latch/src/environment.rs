//! The environment variables of the command.

use std::env;
use std::process::Command;
use std::time::Duration;

use latchwork::Guard;

use crate::process_tree::MARK_VARIABLE;
use crate::self_deadlock;
use crate::target::{REDACTED_VARIABLE, Target, URL_FILE_VARIABLE, URL_VARIABLE};

/// Sets the variables that describe the lock to `command`, and the engine to a nested `latch`.
pub(crate) fn describe(command: &mut Command, target: &Target, guard: &Guard, ttl: Duration) {
    command.env("LATCH_NAME", guard.name().as_str()).env("LATCH_TTL", ttl.as_secs_f64().to_string());
    match guard.token() {
        Ok(token) => command.env("LATCH_TOKEN", token.to_string()),
        Err(_) => command.env_remove("LATCH_TOKEN"),
    };
    let url = shown_url(target);
    // An inherited URL file would send a nested latch to another engine, and a relative path in the file to
    // another database.
    match &target.file {
        Some(file) if absolute(target) == target.text => command.env(URL_FILE_VARIABLE, file),
        _ => command.env_remove(URL_FILE_VARIABLE),
    };
    match has_secret(&target.text) || target.is_redacted() {
        true => command.env(REDACTED_VARIABLE, &url),
        false => command.env_remove(REDACTED_VARIABLE),
    };
    command.env(URL_VARIABLE, url).env_remove(crate::keep_fd::DESCRIPTOR_VARIABLE);
    self_deadlock::record(command, guard.name().as_str(), target);
}

/// Marks `command` and all its descendants. Marks of outer runs stay: their commands include this one.
pub(crate) fn mark(command: &mut Command, mark: &str) {
    match env::var(MARK_VARIABLE) {
        Ok(outer) if !outer.is_empty() => command.env(MARK_VARIABLE, format!("{outer}:{mark}")),
        _ => command.env(MARK_VARIABLE, mark),
    };
}

/// The engine's URL without its password, valid in any folder.
pub(crate) fn shown_url(target: &Target) -> String {
    without_password(&absolute(target))
}

/// The URL with an absolute path: the command may change its folder, and a relative path would become another
/// database.
fn absolute(target: &Target) -> String {
    let path = target.text.strip_prefix("sqlite:").filter(|path| !path.is_empty() && !path.starts_with('/'));
    let folder = path
        .and_then(|_| env::current_dir().ok())
        .and_then(|folder| folder.into_os_string().into_string().ok());
    match (path, folder) {
        (Some(path), Some(folder)) => format!("sqlite:{}/{path}", escaped(&folder)),
        _ => target.text.clone(),
    }
}

/// The path, percent-encoded for a URL.
fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if "%?@".contains(c) || c.is_control() {
            let mut bytes = [0; 4];
            escaped.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Whether [`without_password`] removes anything.
pub(crate) fn has_secret(url: &str) -> bool {
    let (address, options) = url.split_once('?').unwrap_or((url, ""));
    let rest = address.split_once("//").map(|(_, rest)| rest);
    rest.is_some_and(|rest| without_user_password(rest) != rest) || options.split('&').any(is_secret)
}

pub(crate) fn without_password(url: &str) -> String {
    let (address, options) = url.split_once('?').unwrap_or((url, ""));
    let mut shown = match address.split_once("//") {
        Some((scheme, rest)) => format!("{scheme}//{}", without_user_password(rest)),
        None => address.to_owned(),
    };
    let harmless = options.split('&').filter(|option| !option.is_empty() && !is_secret(option));
    for (at, option) in harmless.enumerate() {
        shown.push(if at == 0 { '?' } else { '&' });
        shown.push_str(option);
    }
    shown
}

fn without_user_password(rest: &str) -> String {
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let Some((user, hosts)) = authority.rsplit_once('@') else { return rest.to_owned() };
    match user.split_once(':') {
        Some(("", _)) => format!("{hosts}{path}"),
        Some((user, _)) => format!("{user}@{hosts}{path}"),
        None => rest.to_owned(),
    }
}

fn is_secret(option: &str) -> bool {
    let key = option.split('=').next().unwrap_or_default().to_ascii_lowercase();
    ["pass", "secret", "token", "%"].iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_are_removed_from_a_url() {
        for (url, shown) in [
            ("sqlite:", "sqlite:"),
            ("sqlite:/a%3Fb.db", "sqlite:/a%3Fb.db"),
            ("redis://u:canary@h:1,i:2/0?prefix=x", "redis://u@h:1,i:2/0?prefix=x"),
            ("redis://:ca@nary@h", "redis://h"),
            ("redis://u@h", "redis://u@h"),
            ("redis://h/0?a=1&password=canary&b=2", "redis://h/0?a=1&b=2"),
            ("redis://h/0?p%61ssword=canary", "redis://h/0"),
        ] {
            assert_eq!(without_password(url), shown);
            assert_eq!(has_secret(url), url != shown, "{url}");
        }
        assert!(has_secret("redlock://h1,h2/?password.2=canary") && !has_secret("redis://h?&prefix=x"));
    }
}
