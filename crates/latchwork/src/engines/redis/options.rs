//! What a URL says: where the server is, and how to lock on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates,
};

use super::redlock::Roster;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engines::quarantine::Quarantine;
use crate::engines::settings::{choice, host_and_port, invalid, number, pem, span};

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

/// A server, and how to lock on it.
pub(super) struct Options {
    pub(super) client: Client,
    /// The server's address, as it may be shown.
    pub(super) place: String,
    /// Before every lock's name.
    pub(super) prefix: String,
    pub(super) scheme: Scheme,
    pub(super) quarantine: Quarantine,
    pub(super) max_ttl: Duration,
    pub(super) max_waiters: u32,
    /// For how long a released lock that others wait for stays free, so that clients that poll get it too. Zero: it is
    /// handed to the first waiter.
    pub(super) gap: Duration,
    /// The masters that are counted together with this one.
    pub(super) roster: Option<Arc<Roster>>,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        let (address, place) = address(url)?;
        let redis = redis_settings(url)?;
        let info = address.into_connection_info().map(|info| info.set_redis_settings(redis));
        let info = info.map_err(|_| invalid(url, "this address cannot be used".to_owned()))?;
        let client = client(url, info)?;
        let (quarantine, max_ttl) = Quarantine::of(url)?;
        let wakes = choice(url, "handover", &[("direct", false), ("wake", true)])?;
        Ok(Self {
            client,
            place,
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

fn address(url: &EngineUrl) -> Result<(ConnectionAddr, String)> {
    if url.scheme() == "redis+unix" {
        let path = PathBuf::from(url.path());
        if !path.is_absolute() || url.hosts().next().is_some() {
            return Err(invalid(
                url,
                "takes the path of a socket; write redis+unix:/run/redis.sock".to_owned(),
            ));
        }
        let place = path.display().to_string();
        return Ok((ConnectionAddr::Unix(path), place));
    }
    let mut hosts = url.hosts();
    let host = hosts.next().unwrap_or("127.0.0.1");
    if hosts.next().is_some() {
        let why = "takes one server; for a majority of several independent ones there is redlock://";
        return Err(invalid(url, why.to_owned()));
    }
    let (host, port) = host_and_port(host, PORT)
        .ok_or_else(|| invalid(url, "the port is no number from 1 to 65535".to_owned()))?;
    let place = format!("{host}:{port}");
    let address = match url.scheme() {
        "rediss" => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        _ => ConnectionAddr::Tcp(host, port),
    };
    Ok((address, place))
}

fn redis_settings(url: &EngineUrl) -> Result<RedisConnectionInfo> {
    let mut settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let path =
        (url.scheme() != "redis+unix").then(|| url.path().trim_matches('/')).filter(|db| !db.is_empty());
    if let Some(db) = path.or(url.option("db")) {
        let db = db.parse::<u16>().map_err(|_| {
            invalid(url, "the database is no number; write redis://host/0 or db=0".to_owned())
        })?;
        settings = settings.set_db(db.into());
    }
    match (url.user(), url.password()) {
        (user, Some(password)) => {
            settings = settings.set_password(password);
            Ok(user.into_iter().fold(settings, |settings, user| settings.set_username(user)))
        }
        (None, None) => Ok(settings),
        // The crate would not mention the user to the server. It is not shown: it may be meant as the password.
        (Some(_), None) => {
            let why =
                "a user without a password; write redis://user:password@host, or redis://:password@host";
            Err(invalid(url, why.to_owned()))
        }
    }
}

fn client(url: &EngineUrl, info: ConnectionInfo) -> Result<Client> {
    let files = ["ca", "cert", "key"].map(|option| url.option(option).map(Path::new));
    if url.scheme() != "rediss" {
        if files.iter().any(Option::is_some) {
            return Err(invalid(url, "ca, cert and key are for TLS; write rediss://".to_owned()));
        }
        return Client::open(info).map_err(|error| invalid(url, error.to_string()));
    }
    let [ca, cert, key] = files;
    let client_tls = match (cert, key) {
        (Some(cert), Some(key)) => {
            Some(ClientTlsConfig { client_cert: pem(url, "cert", cert)?, client_key: pem(url, "key", key)? })
        }
        (None, None) => None,
        _ => return Err(invalid(url, "cert and key go together; give both or neither".to_owned())),
    };
    let root_cert = ca.map(|path| pem(url, "ca", path)).transpose()?;
    // rustls would panic if an application compiled in two providers and chose none.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
        .map_err(|error| invalid(url, format!("ca, cert or key cannot be used: {error}")))
}
