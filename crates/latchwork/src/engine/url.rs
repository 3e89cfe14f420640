//! Engine URLs: `scheme://user:password@host,host/path?key=value`. Passwords are never printed.
//!
//! The parser is hand-written because a URL may list several servers (`etcd://h1:2379,h2:2379`), which
//! generic URL parsers reject.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::registry::closest;
use crate::{Error, ErrorKind, Result};

/// A parsed engine URL. Neither `Debug` nor `Display` shows the password or the value of any option.
#[derive(Clone, PartialEq, Eq)]
pub struct EngineUrl {
    scheme: String,
    user: Option<String>,
    password: Option<String>,
    hosts: Option<String>,
    path: String,
    options: BTreeMap<String, String>,
}

impl EngineUrl {
    /// The text before the first colon.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user, decoded.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password, decoded. Do not print it.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The hosts with their ports, as written between commas. Empty after `scheme:` without `//`.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().flat_map(|hosts| hosts.split(',')).filter(|host| !host.is_empty())
    }

    /// The text after the hosts (or the colon), decoded.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Rejects every option that is not in `known`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option and the closest known one.
    pub fn expect_only(&self, known: &[&str]) -> Result<()> {
        let Some(key) = self.options.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let hint = match (closest(key, known.iter().copied()), known) {
            (Some(near), _) => format!("did you mean {near:?}?"),
            (None, []) => "it takes none".to_owned(),
            (None, known) => format!("it takes {}", known.join(", ")),
        };
        let scheme = &self.scheme;
        Err(Error::new(ErrorKind::Invalid, format!("{scheme}: unknown URL option {key:?}; {hint}")))
    }

    /// The URL of one of several hosts, counted from 1. The options `own` belong to this URL, `KEY.2=VALUE`
    /// to the second host only, and all others to each host.
    #[cfg(feature = "redis")]
    pub(crate) fn of_host(&self, number: usize, scheme: &str, host: &str, own: &[&str]) -> Self {
        let mut options = BTreeMap::new();
        for (key, value) in &self.options {
            match key.rsplit_once('.') {
                Some((key, at)) if at.parse() == Ok(number) => {
                    drop(options.insert(key.to_owned(), value.clone()))
                }
                Some((_, at)) if at.parse::<usize>().is_ok() => {}
                _ if own.contains(&key.as_str()) => {}
                _ => drop(options.entry(key.clone()).or_insert_with(|| value.clone())),
            }
        }
        let mut login = |key: &str, common: &Option<String>| options.remove(key).or_else(|| common.clone());
        let (user, password) = (login("user", &self.user), login("password", &self.password));
        let (scheme, hosts, path) = (scheme.to_owned(), Some(host.to_owned()), self.path.clone());
        Self { scheme, user, password, hosts, path, options }
    }

    /// The value of an option.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }
}

impl FromStr for EngineUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // No message here may quote the text: it can contain a password.
        let invalid = |why: &'static str| Error::new(ErrorKind::Invalid, format!("not an engine URL: {why}"));
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| invalid("no scheme; write for example sqlite:/path/locks.db"))?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        if !scheme.starts_with(|c: char| c.is_ascii_lowercase()) || !scheme.chars().all(plain) {
            return Err(invalid(
                "the scheme before the first colon must be lowercase letters, digits, + - or .",
            ));
        }
        if rest.contains(|c: char| c.is_control()) {
            return Err(invalid("control characters; write them as %XX"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            None => (None, rest),
            Some(rest) => {
                let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
                (Some(authority), path)
            }
        };
        if path.contains('@') {
            // A password that contains a slash would otherwise be parsed as a path, and printed.
            return Err(invalid(
                "an @ behind the host; write / in a password as %2F, and @ in a path as %40",
            ));
        }
        let (userinfo, hosts) = match authority.map(|authority| authority.rsplit_once('@').ok_or(authority)) {
            None => (None, None),
            Some(Ok((userinfo, hosts))) => (Some(userinfo), Some(hosts)),
            Some(Err(hosts)) => (None, Some(hosts)),
        };
        let (user, password) = match userinfo.map(|info| info.split_once(':').ok_or(info)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
        };
        let decoded = |part: &str| match percent_decode_str(part).decode_utf8() {
            Ok(part) => Ok(part.into_owned()),
            Err(_) => Err(invalid("%XX escapes that are not UTF-8")),
        };
        let mut options = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| invalid("an option without =; write key=value"))?;
            if options.insert(decoded(key)?, decoded(value)?).is_some() {
                return Err(invalid("an option is given twice"));
            }
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            user: user.filter(|user| !user.is_empty()).map(decoded).transpose()?,
            password: password.map(decoded).transpose()?,
            hosts: hosts.map(decoded).transpose()?,
            path: decoded(path)?,
            options,
        })
    }
}

/// The URL with the password and the values of options as stars.
impl fmt::Display for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        if let Some(hosts) = &self.hosts {
            f.write_str("//")?;
            match (&self.user, &self.password) {
                (Some(user), Some(_)) => write!(f, "{user}:***@")?,
                (Some(user), None) => write!(f, "{user}@")?,
                (None, Some(_)) => f.write_str(":***@")?,
                (None, None) => {}
            }
            f.write_str(hosts)?;
        }
        f.write_str(&self.path)?;
        for (at, key) in self.options.keys().enumerate() {
            write!(f, "{}{key}=***", if at == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for EngineUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> EngineUrl {
        text.parse().unwrap()
    }

    #[test]
    fn every_part_is_found_and_decoded() {
        let url = parse("etcd://us%40er:p%3Ass@h1:2379,h2:2379/a%20b?namespace=x%26y&tls=yes");
        assert_eq!((url.scheme(), url.user(), url.password()), ("etcd", Some("us@er"), Some("p:ss")));
        assert_eq!(url.hosts().collect::<Vec<_>>(), ["h1:2379", "h2:2379"]);
        assert_eq!(
            (url.path(), url.option("namespace"), url.option("tls")),
            ("/a b", Some("x&y"), Some("yes"))
        );
        let url = parse("sqlite:/var/lib/my%3Flocks.db");
        assert_eq!((url.path(), url.hosts().count()), ("/var/lib/my?locks.db", 0));
        assert_eq!(parse("memory:").path(), "");
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        for text in [
            "redis://u:canary@h/0",
            "redis://:canary@h",
            "redis://u:ca%6eary@h?password=canary",
            "x://h?k=canary",
        ] {
            let url = parse(text);
            assert!(!format!("{url} {url:?} {url:#?}").contains("canary"), "{url:?}");
        }
        for bad in [
            "canary",
            "Canary://canary@h",
            "redis://u:canary@h?x",
            "redis://u:canary@h?a=1&a=2",
            "redis://u:can/ary@h",
            "redis:u:canary@h",
            "redis://u:canary%ff@h",
            "redis://u:can\nary@h",
        ] {
            let error = bad.parse::<EngineUrl>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!format!("{error} {error:?}").contains("anary"), "{error:?}");
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_host_has_options_of_its_own_and_those_of_all() {
        let url = parse("redlock://u:p@h1,h2,h3/1?prefix=a&prefix.2=b&password.2=q&allow-few=yes&x.9=1");
        let host = |number, host| url.of_host(number, "redis", host, &["allow-few"]);
        let (first, second) = (host(1, "h1"), host(2, "h2"));
        assert_eq!((first.option("prefix"), first.password(), first.path()), (Some("a"), Some("p"), "/1"));
        assert_eq!(
            (second.option("prefix"), second.password(), second.user()),
            (Some("b"), Some("q"), Some("u"))
        );
        assert_eq!(second.options.len(), 1, "{second:?}");
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_closest_known_one() {
        let url = parse("redis://h?quarantin=off");
        let error = url.expect_only(&["prefix", "quarantine"]).unwrap_err();
        assert!(error.to_string().contains("did you mean \"quarantine\"?"), "{error}");
        assert!(parse("memory:?x=1").expect_only(&[]).unwrap_err().to_string().contains("it takes none"));
    }
}
