//! What a URL says: where the database is, who asks, and which tables are the locks'.

use std::sync::Arc;

use super::wire::Login;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engines::settings::{host_and_port, invalid, table};
use crate::engines::tls::tls;

const KNOWN: [&str; 5] = ["ca", "cert", "key", "scheme", "table"];
const PORT: u16 = 3306;

/// A database, and how to lock in it.
pub(super) struct Options {
    pub(super) login: Login,
    /// The engine's name, as it may be shown: `mysql` or `mariadb`, as the URL has it.
    pub(super) engine: &'static str,
    /// The server, as it may be shown.
    pub(super) place: String,
    /// What the names of the tables begin with.
    pub(super) table: String,
    /// `scheme=insert`: `table` is a whole name, and others use it too.
    pub(super) inserts: bool,
}

impl Options {
    /// `also`: options that only one way to lock has.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl, also: &[&str]) -> Result<Self> {
        url.expect_only(&[&KNOWN[..], also].concat())?;
        let mut hosts = url.hosts();
        let host = hosts.next().unwrap_or("127.0.0.1");
        if hosts.next().is_some() {
            return Err(invalid(url, "takes one host: the primary".to_owned()));
        }
        let (host, port) = host_and_port(host, PORT)
            .ok_or_else(|| invalid(url, format!("{host:?} is no host with a port from 1 to 65535")))?;
        let place = format!("{host}:{port}");
        let login = Login {
            host,
            port,
            user: url.user().unwrap_or("root").to_owned(),
            password: url.password().unwrap_or_default().to_owned(),
            database: url.path().trim_matches('/').to_owned(),
            tls: tls(url)?.map(Arc::new),
        };
        let engine = if url.scheme().starts_with("mysql") { "mysql" } else { "mariadb" };
        Ok(Self { login, engine, place, table: table(url, "latchwork")?, inserts: false })
    }
}
