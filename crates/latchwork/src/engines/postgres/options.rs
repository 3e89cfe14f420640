//! What a URL says: where the database is, and which tables are the locks'.

use std::sync::Arc;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::tls::Tls;

use crate::Result;
use crate::engine::EngineUrl;
use crate::engines::settings::{choice, host_and_port, invalid};
use crate::engines::tls::tls;

const KNOWN: [&str; 5] = ["ca", "cert", "key", "pooler", "table"];
const PORT: u16 = 5432;
/// The longest name of a table that leaves room for `_claim`.
const LONGEST: usize = 50;

/// A database, and how to lock in it.
pub(super) struct Options {
    pub(super) config: Config,
    pub(super) tls: Option<Tls>,
    /// The server, as it may be shown.
    pub(super) place: String,
    pub(super) user: String,
    /// Before `_lock` and `_claim`.
    pub(super) table: String,
    /// Whether a pooler stands between; `None`: find out.
    pub(super) pooler: Option<bool>,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        let mut hosts = url.hosts();
        let host = hosts.next().unwrap_or("127.0.0.1");
        if hosts.next().is_some() {
            return Err(invalid(url, "takes one host: the primary".to_owned()));
        }
        let (host, port) = host_and_port(host, PORT)
            .ok_or_else(|| invalid(url, format!("{host:?} is no host with a port from 1 to 65535")))?;
        let (user, database) = (url.user().unwrap_or("postgres"), url.path().trim_matches('/'));
        let mut config = Config::new();
        config.host(&host).port(port).user(user).application_name("latchwork");
        config.dbname(if database.is_empty() { user } else { database });
        if let Some(password) = url.password() {
            config.password(password);
        }
        let tls = tls(url)?.map(|tls| Tls(Arc::new(tls)));
        // Never the one where the other was asked for.
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        let table = table(url)?;
        let pooler = choice(url, "pooler", &[("auto", None), ("yes", Some(true)), ("no", Some(false))])?;
        Ok(Self { config, tls, place: format!("{host}:{port}"), user: user.to_owned(), table, pooler })
    }
}

fn table(url: &EngineUrl) -> Result<String> {
    let table = url.option("table").unwrap_or("latchwork");
    let is_name = |part: &str| {
        let mut letters = part.bytes();
        letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
            && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_')
    };
    let parts: Vec<_> = table.split('.').collect();
    if parts.len() > 2 || table.len() > LONGEST || !parts.iter().all(|part| is_name(part)) {
        let why = format!(
            "table= takes NAME or SCHEMA.NAME of small letters, digits and _, at most {LONGEST} bytes"
        );
        return Err(invalid(url, why));
    }
    Ok(table.to_owned())
}
