//! The options of a URL.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::keys::MAX_PREFIX;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::invalid;
use crate::engines::quarantine::QuarantinePolicy;
use crate::net::tls::tls;

const KNOWN: [&str; 6] = ["ca", "cert", "key", "max-ttl", "prefix", "quarantine"];

/// The servers, and how to lock on them.
pub(super) struct Options {
    pub(super) endpoints: Vec<Endpoint>,
    /// The beginning of every lock's key.
    pub(super) prefix: String,
    pub(super) quarantine: QuarantinePolicy,
    pub(super) max_ttl: Duration,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option, what it takes and never its
    /// value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        if url.user().is_some() || url.password().is_some() {
            let why = "users and passwords are not supported; protect the server by a private network, or by client certificates \
                       (memcached+tls:// with cert= and key=)";
            return Err(invalid(url, why.to_owned()));
        }
        if !url.path().trim_matches('/').is_empty() {
            return Err(invalid(url, "takes no path; set a prefix for all keys with prefix=".to_owned()));
        }
        let config = tls(url)?.map(Arc::new);
        let hosts: Vec<_> = url.hosts().collect();
        let hosts = if hosts.is_empty() { vec!["127.0.0.1"] } else { hosts };
        let endpoints = hosts.iter().map(|host| Endpoint::of(url, host, config.as_ref()));
        let endpoints = endpoints.collect::<Result<Vec<_>>>()?;
        let mut names: Vec<_> = endpoints.iter().map(|endpoint| &endpoint.shown_as).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(invalid(url, format!("{} is named twice", twice[0])));
        }
        let (quarantine, max_ttl) = QuarantinePolicy::of(url)?;
        Ok(Self { endpoints, prefix: prefix(url)?, quarantine, max_ttl })
    }
}

fn prefix(url: &EngineUrl) -> Result<String> {
    let prefix = url.option("prefix").unwrap_or_default();
    let is_fine = |c: char| !c.is_control() && c != ' ' && c != '%';
    if prefix.len() > MAX_PREFIX || !prefix.chars().all(is_fine) {
        let why = format!("prefix= takes up to {MAX_PREFIX} bytes, without spaces, % or control characters");
        return Err(invalid(url, why));
    }
    Ok(prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Options> {
        Options::of(&url.parse().unwrap())
    }

    #[test]
    fn servers_are_found() {
        let texts = |url: &str| -> Vec<String> {
            of(url).unwrap().endpoints.into_iter().map(|endpoint| endpoint.shown_as).collect()
        };
        assert_eq!(texts("memcached:"), ["127.0.0.1:11211"]);
        assert_eq!(texts("memcached://A,b:7,[::1]:8/"), ["a:11211", "b:7", "[::1]:8"]);
        let options = of("memcached://h?prefix=app:&quarantine=off").unwrap();
        assert_eq!((options.prefix.as_str(), options.max_ttl.as_secs()), ("app:", 86_400));
        assert_eq!(of("memcached://h").unwrap().max_ttl.as_secs(), 60);
    }

    #[test]
    fn mistakes_are_named_and_secrets_are_not() {
        let long = format!("memcached://h?prefix={}", "x".repeat(151));
        for (url, named) in [
            ("memcached://h?quarantin=off", "did you mean \"quarantine\"?"),
            ("memcached://h?quarantine=maybe", "auto, strict, off"),
            ("memcached://u:canary@h", "not supported"),
            ("memcached://h/canary", "takes no path"),
            ("memcached://h:0", "1 to 65535"),
            ("memcached://h,H:11211", "h:11211 is named twice"),
            ("memcached://h?prefix=a%20b", "150 bytes"),
            ("memcached://h?prefix=a%2520", "without spaces, %"),
            (&long, "150 bytes"),
            ("memcached://h?max-ttl=31d", "1ms to 24h"),
            ("memcached://h?ca=/canary", "memcached+tls://"),
        ] {
            let error = of(url).err().expect("a mistake").to_string();
            assert!(error.contains(named) && !error.contains("canary"), "{url}: {error}");
        }
    }
}
