//! The options of a URL.

use std::sync::Arc;
use std::time::Duration;

use super::DistinctMasters;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{choice, invalid, span};
use crate::engines::quarantine::QuarantinePolicy;
use crate::engines::redis::options::{Options as MasterOptions, Scheme};

/// The options of this engine, and those that each master may have as well.
const OWN: [&str; 2] = ["allow-few", "node-timeout"];
const EACH: [&str; 9] = ["ca", "cert", "db", "key", "max-ttl", "password", "prefix", "quarantine", "user"];
/// With fewer masters none may fail.
const MIN_MASTERS: usize = 3;

/// How to lock on several masters.
pub(super) struct Options {
    /// The time limit for each master's reply to a claim; by default a two-hundredth of the ttl.
    node_timeout: Option<Duration>,
    /// The longest ttl for which the quarantine of every master is long enough.
    pub(super) max_ttl: Duration,
    /// Whether a lock stays exclusive when any master restarts.
    pub(super) is_strict: bool,
}

impl Options {
    /// The options of each master, and those of this engine.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option, what it takes and never its
    /// value.
    pub(super) fn of(url: &EngineUrl) -> Result<(Vec<MasterOptions>, Self)> {
        let hosts: Vec<_> = url.hosts().collect();
        let known = known(hosts.len());
        url.expect_only(&known.iter().map(String::as_str).collect::<Vec<_>>())?;
        let allows_few = choice(url, "allow-few", &[("no", false), ("yes", true)])?;
        if hosts.len() < MIN_MASTERS && !allows_few {
            let why = format!(
                "{} masters: none may fail, so a single redis:// is as good; name {MIN_MASTERS} or more, or say allow-few=yes",
                hosts.len()
            );
            return Err(invalid(url, why));
        }
        if hosts.is_empty() {
            return Err(invalid(url, "no masters; write redlock://host,host,host".to_owned()));
        }
        let scheme = if url.scheme() == "redlock+tls" { "rediss" } else { "redis" };
        let distinct_masters = Arc::<DistinctMasters>::default();
        let master = |(at, host): (usize, &&str)| {
            let url = url.of_host(at + 1, scheme, host, &OWN);
            let mut options = MasterOptions::of(&url)?;
            options.scheme = Scheme::Redlock;
            options.distinct_masters = Some(distinct_masters.clone());
            if url.option("quarantine").is_none() {
                // A master in quarantine costs only its vote, for a while.
                options.quarantine = QuarantinePolicy::Strict;
            }
            Ok(options)
        };
        let masters = hosts.iter().enumerate().map(master).collect::<Result<Vec<_>>>()?;
        let options = Self {
            node_timeout: span(url, "node-timeout")?,
            max_ttl: masters.iter().map(|options| options.max_ttl).min().unwrap_or_default(),
            is_strict: masters.iter().all(|options| options.quarantine == QuarantinePolicy::Strict),
        };
        Ok((masters, options))
    }

    /// The time limit for each master's reply to a claim with this ttl.
    pub(super) fn claim_limit(&self, ttl: Duration) -> Duration {
        let default = || (ttl / 200).clamp(Duration::from_millis(5), Duration::from_millis(50));
        self.node_timeout.unwrap_or_else(default)
    }
}

/// Every option, also of one master alone: `db.2`.
fn known(masters: usize) -> Vec<String> {
    let of_one = |number: usize| EACH.iter().map(move |option| format!("{option}.{number}"));
    let of_all = OWN.iter().chain(&EACH[..]).filter(|option| !["password", "user"].contains(option));
    of_all.map(|option| (*option).to_owned()).chain((1..=masters).flat_map(of_one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masters(url: &str) -> Result<(Vec<MasterOptions>, Options)> {
        Options::of(&url.parse().unwrap())
    }

    #[test]
    fn masters_are_found_and_quarantine_is_strict() {
        let (five, options) =
            masters("redlock://h1,h2:7000,h3,h4,h5?prefix=a:&prefix.2=b:&max-ttl=30s").unwrap();
        let of = |at: usize| (five[at].shown_as.as_str(), five[at].prefix.as_str());
        assert_eq!([of(0), of(1)], [("h1:6379", "a:"), ("h2:7000", "b:")]);
        assert!(options.is_strict && options.max_ttl == Duration::from_secs(30));
        assert!(!masters("redlock://a,b,c?quarantine.3=off").unwrap().1.is_strict);
        let limit = |millis| options.claim_limit(Duration::from_millis(millis)).as_millis();
        assert_eq!([limit(100), limit(5_000), limit(60_000)], [5, 25, 50]);
    }

    #[test]
    fn mistakes_are_named() {
        for (url, named) in [
            ("redlock://a,b", "allow-few=yes"),
            ("redlock://?allow-few=yes", "no masters"),
            ("redlock://a,b,c?nod-timeout=5ms", "node-timeout"),
            ("redlock://a,b,c?prefix.4=x", "did you mean \"prefix."),
            ("redlock://a,b,c?scheme=set", "unknown URL option"),
            ("redlock://a,b,c?node-timeout=fast", "1ms to 24h"),
        ] {
            let error = masters(url).err().expect("a mistake").to_string();
            assert!(error.contains(named), "{url}: {error}");
        }
        assert!(masters("redlock://a,b?allow-few=yes").is_ok());
    }
}
