//! URL options that several engines have.
#![cfg_attr(
    not(feature = "all-engines"),
    allow(dead_code, reason = "not every engine has every kind of option")
)]

use std::path::Path;
use std::time::Duration;

use crate::engine::EngineUrl;
use crate::{Error, ErrorKind, Result};

/// The default time for which a session lives without a heartbeat.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(20);

/// An error about the URL. `why` names the option and its possible values, and never its value.
pub(crate) fn invalid(url: &EngineUrl, why: String) -> Error {
    Error::new(ErrorKind::Invalid, format!("{}: {why}", url.scheme()))
}

/// Splits `host`, `host:port` or `[::1]:port`.
pub(crate) fn host_and_port(text: &str, usual: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(usual), |port| port.parse().ok().filter(|port| *port != 0))?;
    Some((host.to_owned(), port))
}

/// Reads the PEM file of an option.
pub(crate) fn pem(url: &EngineUrl, option: &str, path: &Path) -> Result<Vec<u8>> {
    let pem =
        std::fs::read(path).map_err(|error| invalid(url, format!("{option}={}: {error}", path.display())))?;
    let wanted: &[u8] = if option == "key" { b"PRIVATE KEY-----" } else { b"-----BEGIN CERTIFICATE-----" };
    if !pem.windows(wanted.len()).any(|window| window == wanted) {
        let what = if option == "key" { "private key" } else { "certificate" };
        return Err(invalid(url, format!("{option}={}: contains no PEM-encoded {what}", path.display())));
    }
    Ok(pem)
}

/// An option whose value is one of these words. The first is the default.
pub(crate) fn choice<T: Copy>(url: &EngineUrl, option: &str, words: &[(&str, T)]) -> Result<T> {
    let Some(value) = url.option(option) else { return Ok(words[0].1) };
    words.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        invalid(url, format!("{option}= takes one of {}", words.join(", ")))
    })
}

/// An option whose value is a positive number.
pub(crate) fn number(url: &EngineUrl, option: &str) -> Result<Option<u32>> {
    let number = url.option(option).map(|text| text.parse().ok().filter(|number| *number > 0));
    number
        .map(|number| number.ok_or_else(|| invalid(url, format!("{option}= takes a number from 1 on"))))
        .transpose()
}

/// An option whose value is a duration: `500ms`, `60s`, `5m`, `1h`.
pub(crate) fn span(url: &EngineUrl, option: &str) -> Result<Option<Duration>> {
    let Some(text) = url.option(option) else { return Ok(None) };
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let millis = match unit {
        "ms" => Some(1_u64),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let span = millis.zip(digits.parse::<u64>().ok()).and_then(|(unit, count)| unit.checked_mul(count));
    match span.filter(|millis| (1..=86_400_000).contains(millis)) {
        Some(millis) => Ok(Some(Duration::from_millis(millis))),
        None => Err(invalid(url, format!("{option}= takes a time from 1ms to 24h, as 500ms, 60s, 5m, 1h"))),
    }
}

/// The option `session-ttl=`.
pub(crate) fn session_ttl(url: &EngineUrl) -> Result<Duration> {
    let ttl = span(url, "session-ttl")?.unwrap_or(SESSION_TTL);
    match (Duration::from_millis(200)..=Duration::from_secs(60 * 60)).contains(&ttl) {
        true => Ok(ttl),
        false => Err(invalid(url, "session-ttl= takes a time from 200ms to 60m".to_owned())),
    }
}

/// The option `table=`, the prefix of table names. It becomes part of statements, so it must not contain
/// characters with a meaning in SQL.
pub(crate) fn table(url: &EngineUrl, usual: &str) -> Result<String> {
    /// Leaves room for `_claim` on every database.
    const LONGEST: usize = 50;
    let table = url.option("table").unwrap_or(usual);
    let is_name = |part: &str| {
        let mut letters = part.bytes();
        letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
            && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_')
    };
    let parts: Vec<_> = table.split('.').collect();
    if parts.len() > 2 || table.len() > LONGEST || !parts.iter().all(|part| is_name(part)) {
        let why = format!(
            "table= takes NAME or SCHEMA.NAME of small letters, digits and _, at most {LONGEST} bytes"
        );
        return Err(invalid(url, why));
    }
    Ok(table.to_owned())
}
