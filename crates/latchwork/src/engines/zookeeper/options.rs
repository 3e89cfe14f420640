//! What a URL says: where the servers are, and how to lock on them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::wire::Place;
use crate::engine::EngineUrl;
use crate::{Error, ErrorKind, Result};

const KNOWN: [&str; 5] = ["ca", "cert", "key", "scheme", "session-ttl"];
const PORT: u16 = 2181;
const SESSION_TTL: Duration = Duration::from_secs(20);

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
    /// [`ErrorKind::Invalid`], naming the option, what it takes and never its value.
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
            _ => return Err(invalid(url, "a user needs a password, and no colon; write user:password@host")),
        };
        let scheme = match url.option("scheme") {
            None | Some("sequential") => Scheme::Sequential,
            Some("single") => Scheme::Single,
            Some(_) => return Err(invalid(url, "scheme= takes one of sequential, single")),
        };
        let place = Arc::new(Place { hosts, tls: tls(url)?, digest, timeout: session_ttl });
        let user = url.user().map(str::to_owned);
        Ok(Self { place, place_shown, user, chroot: chroot(url)?, scheme, session_ttl })
    }

    pub(super) fn chroot_shown(&self) -> &str {
        if self.chroot.is_empty() { "/" } else { &self.chroot }
    }
}

fn invalid(url: &EngineUrl, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("{}: {why}", url.scheme()))
}

fn hosts(url: &EngineUrl) -> Result<Vec<(String, u16)>> {
    let parsed: Option<Vec<_>> = url.hosts().map(host_and_port).collect();
    let hosts = parsed.ok_or_else(|| invalid(url, "a port is no number from 1 to 65535"))?;
    match hosts.is_empty() {
        true => Ok(vec![("127.0.0.1".to_owned(), PORT)]),
        false => Ok(hosts),
    }
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port != 0))?;
    Some((host.to_owned(), port))
}

fn chroot(url: &EngineUrl) -> Result<String> {
    let chroot = url.path().trim_end_matches('/');
    let is_bad =
        |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(|c: char| c.is_control());
    if chroot.split('/').skip(1).any(is_bad) || chroot == "/zookeeper" || chroot.starts_with("/zookeeper/") {
        let why = "the path behind the hosts is where the locks are; write it without empty segments, . and .., and not \
                   below /zookeeper";
        return Err(invalid(url, why));
    }
    Ok(chroot.to_owned())
}

/// `500ms`, `20s`, `1m`.
fn session_ttl(url: &EngineUrl) -> Result<Duration> {
    let Some(text) = url.option("session-ttl") else { return Ok(SESSION_TTL) };
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "ms" => Some(1_u64),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let millis = unit.zip(digits.parse::<u64>().ok()).and_then(|(unit, count)| unit.checked_mul(count));
    match millis.filter(|millis| (200..=3_600_000).contains(millis)) {
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => Err(invalid(url, "session-ttl= takes a time from 200ms to 60m, as 500ms, 20s, 1m")),
    }
}

fn tls(url: &EngineUrl) -> Result<Option<Arc<ClientConfig>>> {
    let [ca, cert, key] = ["ca", "cert", "key"].map(|option| url.option(option).map(Path::new));
    if url.scheme() != "zookeeper+tls" {
        return match ca.or(cert).or(key) {
            Some(_) => Err(invalid(url, "ca, cert and key are for TLS; write zookeeper+tls://")),
            None => Ok(None),
        };
    }
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(url, "ca", path)? {
                roots
                    .add(certificate)
                    .map_err(|error| invalid(url, &format!("ca={}: {error}", path.display())))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    // Named, because rustls would panic if an application compiled in two providers and chose none.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(url, &error.to_string()))?
        .with_root_certificates(roots);
    let config = match (cert, key) {
        (None, None) => config.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = certificates(url, "cert", cert)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| invalid(url, &format!("key={}: {error}", key.display())))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| invalid(url, &format!("cert or key cannot be used: {error}")))?
        }
        _ => return Err(invalid(url, "cert and key go together; give both or neither")),
    };
    Ok(Some(Arc::new(config)))
}

fn certificates(url: &EngineUrl, option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let said = |why: String| invalid(url, &format!("{option}={}: {why}", path.display()));
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read.map_err(|error| said(error.to_string()))? {
        none if none.is_empty() => Err(said("there is no certificate in PEM form in it".to_owned())),
        certificates => Ok(certificates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("zookeeper://u:canary@h/a//b", "path behind the hosts"),
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
