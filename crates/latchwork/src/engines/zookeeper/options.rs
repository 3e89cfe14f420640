//! The options of a `zookeeper://` URL.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::wire::SessionConfig;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{choice, invalid, session_ttl};
use crate::net::tls::tls;

const KNOWN: [&str; 5] = ["ca", "cert", "key", "scheme", "session-ttl"];

/// How a lock is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A queue of sequential nodes: the one with the least number holds.
    Sequential,
    /// One node: the client that created it holds.
    Single,
}

/// The servers, and how to lock on them.
pub(super) struct Options {
    pub(super) session: Arc<SessionConfig>,
    /// The servers' addresses, for messages.
    pub(super) shown_as: String,
    pub(super) user: Option<String>,
    /// The prefix of every path. Empty, or a path that does not end in a slash.
    pub(super) chroot: String,
    pub(super) scheme: Scheme,
    pub(super) session_ttl: Duration,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option and its valid values, never its
    /// value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        let servers = servers(url)?;
        let shown_as = servers.iter().map(Endpoint::shown_as).collect::<Vec<_>>().join(",");
        let session_ttl = session_ttl(url)?;
        let digest = match (url.user(), url.password()) {
            (None, None) => None,
            (Some(user), Some(password)) if !user.contains(':') => Some(format!("{user}:{password}")),
            // The error shows neither: a password may stand where the user belongs.
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
        let tls = tls(url)?.map(Arc::new);
        let session = Arc::new(SessionConfig { servers, tls, digest, timeout: session_ttl });
        let user = url.user().map(str::to_owned);
        Ok(Self { session, shown_as, user, chroot: chroot(url)?, scheme, session_ttl })
    }

    pub(super) fn chroot_shown(&self) -> &str {
        if self.chroot.is_empty() { "/" } else { &self.chroot }
    }
}

fn servers(url: &EngineUrl) -> Result<Vec<Endpoint>> {
    let parsed: Option<Vec<_>> = url.hosts().map(Endpoint::parse).collect();
    let servers = parsed.ok_or_else(|| invalid(url, "a port must be a number from 1 to 65535".to_owned()))?;
    match servers.is_empty() {
        true => Ok(vec![Endpoint::local()]),
        false => Ok(servers),
    }
}

fn chroot(url: &EngineUrl) -> Result<String> {
    let chroot = url.path().trim_end_matches('/');
    let is_invalid =
        |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(|c: char| c.is_control());
    if chroot.split('/').skip(1).any(is_invalid)
        || chroot == "/zookeeper"
        || chroot.starts_with("/zookeeper/")
    {
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
        assert_eq!(options.shown_as, "h1:2181,h2:2182,::1:2183");
        assert_eq!((options.chroot.as_str(), options.session_ttl.as_millis()), ("/app/locks", 1_500));
        let plain = parse("zookeeper://h").unwrap();
        assert_eq!(
            (plain.chroot_shown(), plain.session_ttl, plain.scheme),
            ("/", SESSION_TTL, Scheme::Sequential)
        );
    }

    #[test]
    fn errors_name_the_invalid_option_and_show_no_password() {
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
