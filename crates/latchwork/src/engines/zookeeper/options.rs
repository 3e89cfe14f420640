//! What a URL says: where the servers are, and how to lock on them.

use std::sync::Arc;
use std::time::Duration;

use super::wire::Place;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{choice, host_and_port, invalid, session_ttl};
use crate::net::tls::tls;

const KNOWN: [&str; 5] = ["ca", "cert", "key", "scheme", "session-ttl"];
const PORT: u16 = 2181;

/// How a lock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A queue of numbered nodes: who has the least number holds.
    Sequential,
    /// One node: who made it holds.
    Single,
}

/// The servers, and how to lock on them.
pub(super) struct Options {
    pub(super) place: Arc<Place>,
    /// The servers' addresses, as they may be shown.
    pub(super) place_shown: String,
    pub(super) user: Option<String>,
    /// Before every path: empty, or a path that does not end in a slash.
    pub(super) chroot: String,
    pub(super) scheme: Scheme,
    pub(super) session_ttl: Duration,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        let hosts = hosts(url)?;
        let place_shown =
            hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect::<Vec<_>>().join(",");
        let session_ttl = session_ttl(url)?;
        let digest = match (url.user(), url.password()) {
            (None, None) => None,
            (Some(user), Some(password)) if !user.contains(':') => Some(format!("{user}:{password}")),
            // Not shown: the user may be meant as the password.
            _ => {
                return Err(invalid(
                    url,
                    "a user needs a password, and its name must have no colon; write user:password@host"
                        .to_owned(),
                ));
            }
        };
        let scheme =
            choice(url, "scheme", &[("sequential", Scheme::Sequential), ("single", Scheme::Single)])?;
        let place = Arc::new(Place { hosts, tls: tls(url)?.map(Arc::new), digest, timeout: session_ttl });
        let user = url.user().map(str::to_owned);
        Ok(Self { place, place_shown, user, chroot: chroot(url)?, scheme, session_ttl })
    }

    pub(super) fn chroot_shown(&self) -> &str {
        if self.chroot.is_empty() { "/" } else { &self.chroot }
    }
}

fn hosts(url: &EngineUrl) -> Result<Vec<(String, u16)>> {
    let parsed: Option<Vec<_>> = url.hosts().map(|host| host_and_port(host, PORT)).collect();
    let hosts = parsed.ok_or_else(|| invalid(url, "a port is no number from 1 to 65535".to_owned()))?;
    match hosts.is_empty() {
        true => Ok(vec![("127.0.0.1".to_owned(), PORT)]),
        false => Ok(hosts),
    }
}

fn chroot(url: &EngineUrl) -> Result<String> {
    let chroot = url.path().trim_end_matches('/');
    let is_bad =
        |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(|c: char| c.is_control());
    if chroot.split('/').skip(1).any(is_bad) || chroot == "/zookeeper" || chroot.starts_with("/zookeeper/") {
        let why = "the path after the hosts is where the locks are; it must have no empty segments, no . and no .., and not \
                   be /zookeeper or below it";
        return Err(invalid(url, why.to_owned()));
    }
    Ok(chroot.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::engine::url_options::SESSION_TTL;

    fn parse(url: &str) -> Result<Options> {
        Options::of(&url.parse()?)
    }

    #[test]
    fn a_url_names_servers_chroot_and_session() {
        let options = parse("zookeeper://h1,h2:2182,[::1]:2183/app/locks?session-ttl=1500ms").unwrap();
        assert_eq!(options.place_shown, "h1:2181,h2:2182,::1:2183");
        assert_eq!((options.chroot.as_str(), options.session_ttl.as_millis()), ("/app/locks", 1_500));
        let plain = parse("zookeeper://h").unwrap();
        assert_eq!(
            (plain.chroot_shown(), plain.session_ttl, plain.scheme),
            ("/", SESSION_TTL, Scheme::Sequential)
        );
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_shown() {
        for (url, says) in [
            ("zookeeper://u@h", "user:password@host"),
            ("zookeeper://u:canary@h/a//b", "the path after the hosts"),
            ("zookeeper://u:canary@h/zookeeper", "/zookeeper"),
            ("zookeeper://u:canary@h:0", "1 to 65535"),
            ("zookeeper://u:canary@h?session-ttl=1ms", "200ms to 60m"),
            ("zookeeper://u:canary@h?scheme=canary", "sequential, single"),
            ("zookeeper://u:canary@h?ca=/x", "zookeeper+tls://"),
            ("zookeeper+tls://u:canary@h?ca=/no/such/file", "ca=/no/such/file"),
            ("zookeeper+tls://u:canary@h?cert=/x", "go together"),
            ("zookeeper://u:canary@h?sesion-ttl=1s", "did you mean \"session-ttl\"?"),
        ] {
            let error = parse(url).err().expect(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{url}: {error:?}");
        }
    }
}
