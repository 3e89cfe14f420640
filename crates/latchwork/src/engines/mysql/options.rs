//! The options in a URL.

use std::sync::Arc;

use super::wire::ConnectOptions;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{host_and_port, invalid, table};
use crate::net::tls::tls;

const KNOWN: [&str; 5] = ["ca", "cert", "key", "scheme", "table"];
const PORT: u16 = 3306;

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

/// The options of a client.
pub(super) struct Options {
    pub(super) login: ConnectOptions,
    /// The engine's name in messages: `mysql` or `mariadb`, as in the URL.
    pub(super) engine: &'static str,
    /// The server's address, without secrets.
    pub(super) shown_as: String,
    /// The prefix of the names of the tables; the whole name of the table for `scheme=insert`.
    pub(super) table: String,
    pub(super) scheme: Scheme,
}

impl Options {
    /// The options for the engine of this scheme.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option and its valid values, but never
    /// its value.
    pub(super) fn of(url: &EngineUrl, scheme: Scheme) -> Result<Self> {
        let (scheme_options, default_table): (&[_], _) = match scheme {
            Scheme::Row => (&[], "latchwork"),
            Scheme::Insert => (&["max-age"], "latchwork_mutex"),
            Scheme::Session => (&["fenced", "session-ttl"], "latchwork"),
        };
        url.expect_only(&[&KNOWN[..], scheme_options].concat())?;
        let mut hosts = url.hosts();
        let host = hosts.next().unwrap_or("127.0.0.1");
        if hosts.next().is_some() {
            return Err(invalid(url, "takes one host: the primary".to_owned()));
        }
        let (host, port) = host_and_port(host, PORT).ok_or_else(|| {
            invalid(url, format!("{host:?} must be HOST or HOST:PORT, with a port from 1 to 65535"))
        })?;
        let shown_as = format!("{host}:{port}");
        let login = ConnectOptions {
            host,
            port,
            user: url.user().unwrap_or("root").to_owned(),
            password: url.password().unwrap_or_default().to_owned(),
            database: url.path().trim_matches('/').to_owned(),
            tls: tls(url)?.map(Arc::new),
        };
        let engine = if url.scheme().starts_with("mysql") { "mysql" } else { "mariadb" };
        Ok(Self { login, engine, shown_as, table: table(url, default_table)?, scheme })
    }
}
