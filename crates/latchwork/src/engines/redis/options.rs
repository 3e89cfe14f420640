//! What a URL says: where the server is, and how to lock on it.

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
const PORT: u16 = 6379;

/// How a free lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// `SET NX PX`.
    Set,
    /// `SETNX` and `PEXPIRE` in one script, on the same keys.
    Setnx,
    /// `SETNX`, `GET`, `GETSET` with the time of expiry as the value, on keys of its own.
    GetSet,
    /// `SET NX PX` on one of several masters, a majority of which decides.
    Redlock,
}

/// Who this is to the server, and where its keys are.
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u16,
}

/// A server, and how to lock on it.
pub(super) struct Options {
    pub(super) address: Endpoint,
    /// The same, as it may be shown.
    pub(super) place: String,
    pub(super) login: Login,
    /// Before every lock's name.
    pub(super) prefix: String,
    pub(super) scheme: Scheme,
    pub(super) quarantine: QuarantinePolicy,
    pub(super) max_ttl: Duration,
    pub(super) max_waiters: u32,
    /// For how long a released lock that others wait for stays free, so that clients that poll get it too. Zero: it is
    /// handed to the first waiter.
    pub(super) gap: Duration,
    /// The masters that are counted together with this one.
    pub(super) roster: Option<Arc<DistinctMasters>>,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        let (address, place) = address(url)?;
        let (quarantine, max_ttl) = QuarantinePolicy::of(url)?;
        let wakes = choice(url, "handover", &[("direct", false), ("wake", true)])?;
        Ok(Self {
            address,
            place,
            login: login(url)?,
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
            roster: None,
        })
    }
}

fn address(url: &EngineUrl) -> Result<(Endpoint, String)> {
    let tls = tls(url)?.map(Arc::new);
    if url.scheme() == "redis+unix" {
        let path = PathBuf::from(url.path());
        if !path.is_absolute() || url.hosts().next().is_some() {
            return Err(invalid(
                url,
                "takes the path of a socket; write redis+unix:/run/redis.sock".to_owned(),
            ));
        }
        let place = path.display().to_string();
        return Ok((Endpoint::Unix(path), place));
    }
    let mut hosts = url.hosts();
    let host = hosts.next().unwrap_or("127.0.0.1");
    if hosts.next().is_some() {
        let why = "takes one server; for a majority of several independent ones there is redlock://";
        return Err(invalid(url, why.to_owned()));
    }
    let (host, port) = host_and_port(host, PORT)
        .ok_or_else(|| invalid(url, "the port must be a number from 1 to 65535".to_owned()))?;
    let place = format!("{host}:{port}");
    let address = match tls {
        Some(config) => Endpoint::Tls { host, port, config },
        None => Endpoint::Tcp { host, port },
    };
    Ok((address, place))
}

fn login(url: &EngineUrl) -> Result<Login> {
    let path =
        (url.scheme() != "redis+unix").then(|| url.path().trim_matches('/')).filter(|db| !db.is_empty());
    let database = path.or(url.option("db")).map(|db| {
        let no_number = || invalid(url, "the database is no number; write redis://host/0 or db=0".to_owned());
        db.parse().map_err(|_| no_number())
    });
    let (user, password) = (url.user().map(str::to_owned), url.password().map(str::to_owned));
    // It is not shown: it may be meant as the password.
    if user.is_some() && password.is_none() {
        let why = "a user without a password; write redis://user:password@host, or redis://:password@host";
        return Err(invalid(url, why.to_owned()));
    }
    Ok(Login { user, password, database: database.transpose()?.unwrap_or_default() })
}
