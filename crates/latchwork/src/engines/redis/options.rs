//! The options of a URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::redlock::DistinctMasters;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{choice, host_and_port, invalid, number, span};
use crate::engines::quarantine::QuarantinePolicy;
use crate::net::tls::tls;

const KNOWN: [&str; 11] = [
    "ca",
    "cert",
    "db",
    "gap",
    "handover",
    "key",
    "max-ttl",
    "max-waiters",
    "prefix",
    "quarantine",
    "scheme",
];
const DEFAULT_PORT: u16 = 6379;

/// How a free lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// `SET NX PX`.
    Set,
    /// `SETNX` and `PEXPIRE` in one script, on the same keys.
    Setnx,
    /// `SETNX`, `GET`, `GETSET` with the expiry time as the value, on keys of its own.
    GetSet,
    /// `SET NX PX` on one of several masters, of which a majority decides.
    Redlock,
}

/// The user as whom a connection authenticates.
pub(super) struct AclUser {
    pub(super) name: Option<String>,
    pub(super) password: Option<String>,
}

impl AclUser {
    /// The name that the server uses.
    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("default")
    }
}

/// A server, and how to lock on it.
pub(super) struct Options {
    pub(super) endpoint: Endpoint,
    /// The endpoint as errors and status show it.
    pub(super) shown_as: String,
    pub(super) user: AclUser,
    pub(super) database: u16,
    /// Before every lock's name.
    pub(super) prefix: String,
    pub(super) scheme: Scheme,
    pub(super) quarantine: QuarantinePolicy,
    pub(super) max_ttl: Duration,
    pub(super) max_waiters: u32,
    /// For how long a released lock with waiters stays free, so that clients that poll can take it as well.
    /// Zero: it is handed to the first waiter.
    pub(super) gap: Duration,
    /// The other masters of a `redlock://` URL.
    pub(super) distinct_masters: Option<Arc<DistinctMasters>>,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        let (endpoint, shown_as) = endpoint(url)?;
        let (quarantine, max_ttl) = QuarantinePolicy::of(url)?;
        let wakes = choice(url, "handover", &[("direct", false), ("wake", true)])?;
        Ok(Self {
            endpoint,
            shown_as,
            user: user(url)?,
            database: database(url)?,
            prefix: url.option("prefix").unwrap_or_default().to_owned(),
            scheme: choice(
                url,
                "scheme",
                &[("set", Scheme::Set), ("setnx", Scheme::Setnx), ("getset", Scheme::GetSet)],
            )?,
            quarantine,
            max_ttl,
            max_waiters: number(url, "max-waiters")?.unwrap_or(10_000),
            gap: match (wakes, span(url, "gap")?) {
                (true, gap) => gap.unwrap_or(Duration::from_millis(100)),
                (false, None) => Duration::ZERO,
                (false, Some(_)) => return Err(invalid(url, "gap= goes with handover=wake".to_owned())),
            },
            distinct_masters: None,
        })
    }
}

fn endpoint(url: &EngineUrl) -> Result<(Endpoint, String)> {
    let tls = tls(url)?.map(Arc::new);
    if url.scheme() == "redis+unix" {
        let path = PathBuf::from(url.path());
        if !path.is_absolute() || url.hosts().next().is_some() {
            return Err(invalid(
                url,
                "takes the path of a socket; write redis+unix:/run/redis.sock".to_owned(),
            ));
        }
        let shown_as = path.display().to_string();
        return Ok((Endpoint::Unix(path), shown_as));
    }
    let mut hosts = url.hosts();
    let host = hosts.next().unwrap_or("127.0.0.1");
    if hosts.next().is_some() {
        let why = "takes one server; for a majority of several independent ones there is redlock://";
        return Err(invalid(url, why.to_owned()));
    }
    let (host, port) = host_and_port(host, DEFAULT_PORT)
        .ok_or_else(|| invalid(url, "the port must be a number from 1 to 65535".to_owned()))?;
    let shown_as = format!("{host}:{port}");
    let endpoint = match tls {
        Some(config) => Endpoint::Tls { host, port, config },
        None => Endpoint::Tcp { host, port },
    };
    Ok((endpoint, shown_as))
}

fn user(url: &EngineUrl) -> Result<AclUser> {
    let (name, password) = (url.user().map(str::to_owned), url.password().map(str::to_owned));
    // The name is not shown: it may be meant as the password.
    if name.is_some() && password.is_none() {
        let why = "a user without a password; write redis://user:password@host, or redis://:password@host";
        return Err(invalid(url, why.to_owned()));
    }
    Ok(AclUser { name, password })
}

fn database(url: &EngineUrl) -> Result<u16> {
    let path =
        (url.scheme() != "redis+unix").then(|| url.path().trim_matches('/')).filter(|db| !db.is_empty());
    let Some(db) = path.or(url.option("db")) else { return Ok(0) };
    db.parse().map_err(|_| invalid(url, "the database is no number; write redis://host/0 or db=0".to_owned()))
}
