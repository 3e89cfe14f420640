//! The options in a URL.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{choice, host_and_port, invalid, span, table};
use crate::engines::sql::DEFAULT_MAX_AGE;
use crate::net::tls::tls;

const KNOWN: [&str; 9] =
    ["ca", "cert", "fenced", "key", "max-age", "pooler", "scheme", "session-ttl", "table"];
const PORT: u16 = 5432;

/// The ways to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A row for each lock, and a queue.
    Row,
    /// A row for each holder, in a table that other services use by plain SQL.
    Insert,
    /// A lock that the server keeps for a connection.
    Session,
}

impl Scheme {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an unknown scheme, or an option of another
    /// scheme.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        let known = [("row", Self::Row), ("insert", Self::Insert), ("session", Self::Session)];
        let scheme = choice(url, "scheme", &known)?;
        for (option, belongs_to, belongs) in [
            ("max-age", "insert", scheme == Self::Insert),
            ("pooler", "row or scheme=insert", scheme != Self::Session),
            ("fenced", "session", scheme == Self::Session),
            ("session-ttl", "session", scheme == Self::Session),
        ] {
            if !belongs && url.option(option).is_some() {
                return Err(invalid(url, format!("{option}= goes with scheme={belongs_to}")));
            }
        }
        Ok(scheme)
    }
}

/// The options of a client.
pub(super) struct Options {
    pub(super) config: Config,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) address: (String, u16),
    /// The server's address, without secrets.
    pub(super) shown_as: String,
    pub(super) user: String,
    pub(super) database: String,
    pub(super) scheme: Scheme,
    /// `scheme=insert`: a row expires at this age.
    pub(super) max_age: Option<Duration>,
    /// The prefix of `_lock` and `_claim`; the whole name of the table for `scheme=insert`.
    pub(super) table: String,
    /// Whether a pooler is in between. `None`: the client detects it.
    pub(super) pooler: Option<bool>,
}

impl Options {
    /// The options for the engine of this scheme.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option and its valid values, but never
    /// its value.
    pub(super) fn of(url: &EngineUrl, scheme: Scheme) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        if Scheme::of(url)? != scheme {
            return Err(invalid(url, "scheme= names another engine; latchwork::connect finds it".to_owned()));
        }
        let mut hosts = url.hosts();
        let host = hosts.next().unwrap_or("127.0.0.1");
        if hosts.next().is_some() {
            return Err(invalid(url, "takes one host: the primary".to_owned()));
        }
        let (host, port) = host_and_port(host, PORT).ok_or_else(|| {
            invalid(url, format!("{host:?} must be HOST or HOST:PORT, with a port from 1 to 65535"))
        })?;
        let (user, database) = (url.user().unwrap_or("postgres"), url.path().trim_matches('/'));
        let mut config = Config::new();
        config.host(&host).port(port).user(user).application_name("latchwork");
        let database = if database.is_empty() { user } else { database };
        config.dbname(database);
        if let Some(password) = url.password() {
            config.password(password);
        }
        let tls = tls(url)?.map(Arc::new);
        // The driver receives a stream that is already encrypted, if TLS is wanted.
        config.ssl_mode(SslMode::Disable);
        let max_age = match scheme {
            Scheme::Insert => Some(span(url, "max-age")?.unwrap_or(DEFAULT_MAX_AGE)),
            Scheme::Row | Scheme::Session => None,
        };
        let table = table(url, if max_age.is_some() { "latchwork_mutex" } else { "latchwork" })?;
        let pooler = choice(url, "pooler", &[("auto", None), ("yes", Some(true)), ("no", Some(false))])?;
        let (shown_as, user, database) = (format!("{host}:{port}"), user.to_owned(), database.to_owned());
        Ok(Self {
            config,
            tls,
            address: (host, port),
            shown_as,
            user,
            database,
            scheme,
            max_age,
            table,
            pooler,
        })
    }
}
