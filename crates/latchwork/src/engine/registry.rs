//! From a URL to a client. A plain value: nothing is registered globally.

use std::future::Future;
use std::pin::Pin;

use super::EngineUrl;
use crate::{Client, Error, ErrorKind, Guarantees, Result, engines};

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Client>> + Send + 'a>>;
type Connect = for<'a> fn(&'a EngineUrl) -> Connecting<'a>;

/// The engines that URLs can name.
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<EngineEntry>,
}

#[derive(Clone, Copy, Debug)]
struct EngineEntry {
    schemes: &'static [&'static str],
    feature: &'static str,
    compiled: Option<Compiled>,
}

#[derive(Clone, Copy, Debug)]
struct Compiled {
    connect: Connect,
    /// One for each way it can lock.
    guarantees: fn() -> Vec<Guarantees>,
}

/// One line per engine: its URL schemes, its cargo feature, how to connect, and what each way to lock promises.
macro_rules! engines {
    ($([$($scheme:literal)*], $feature:literal, $url:ident => $connect:expr, [$($promises:expr),*];)*) => {
        vec![$(EngineEntry {
            schemes: &[$($scheme),*],
            feature: $feature,
            #[cfg(feature = $feature)]
            compiled: Some(Compiled {
                connect: |$url| Box::pin($connect),
                guarantees: || vec![$(($promises)()),*],
            }),
            #[cfg(not(feature = $feature))]
            compiled: None,
        },)*]
    };
}

#[cfg(any(
    feature = "etcd",
    feature = "memcached",
    feature = "memory",
    feature = "redis",
    feature = "sqlite",
    feature = "zookeeper"
))]
async fn client<E: super::Engine>(connecting: impl Future<Output = Result<E>>) -> Result<Client> {
    Ok(Client::new(connecting.await?))
}

impl Registry {
    /// The engines of this crate.
    pub fn builtin() -> Self {
        Self {
            entries: engines! {
                ["memory"], "memory", url => client(engines::Memory::connect(url)), [engines::Memory::promises];
                ["sqlite"], "sqlite", url => client(engines::Sqlite::connect(url)), [engines::Sqlite::promises];
                ["etcd" "etcd+tls"], "etcd", url => client(engines::Etcd::connect(url)), [engines::Etcd::promises];
                ["memcached" "memcached+tls"], "memcached", url => client(engines::Memcached::connect(url)),
                    [engines::Memcached::promises];
                ["mysql" "mysql+tls" "mariadb" "mariadb+tls"], "mysql", url => engines::mysql::client(url),
                    [engines::Mysql::promises, engines::mysql::MysqlInsert::promises,
                        engines::mysql::MysqlSession::promises];
                ["postgres" "postgres+tls" "postgresql" "postgresql+tls"], "postgres", url => engines::postgres::client(url),
                    [engines::Postgres::promises, engines::postgres::PostgresInsert::promises,
                        engines::postgres::PostgresSession::promises];
                ["redis" "rediss" "redis+unix"], "redis", url => engines::redis::client(url),
                    [engines::Redis::promises, engines::redis::GetSet::promises];
                ["redlock" "redlock+tls"], "redis", url => client(engines::redis::Redlock::connect(url)),
                    [engines::redis::Redlock::promises];
                ["zookeeper" "zookeeper+tls"], "zookeeper", url => client(engines::ZooKeeper::connect(url)),
                    [engines::ZooKeeper::promises, engines::ZooKeeper::promises_of_single];
            },
        }
    }

    /// The schemes that can be connected to.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().filter(|entry| entry.compiled.is_some()).flat_map(|entry| entry.schemes).copied()
    }

    /// What each compiled engine promises.
    pub fn guarantees(&self) -> Vec<Guarantees> {
        self.entries
            .iter()
            .filter_map(|entry| entry.compiled)
            .flat_map(|engine| (engine.guarantees)())
            .collect()
    }

    /// Connects to the engine that `url` names.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that cannot be read or a scheme nobody knows, [`ErrorKind::Unsupported`]
    /// for an engine that was not compiled in, and whatever the engine says of its server.
    pub async fn connect(&self, url: &EngineUrl) -> Result<Client> {
        let scheme = url.scheme();
        let Some(entry) = self.entries.iter().find(|entry| entry.schemes.contains(&scheme)) else {
            let hint = match closest(scheme, self.entries.iter().flat_map(|entry| entry.schemes).copied()) {
                Some(near) => format!("did you mean \"{near}:\"?"),
                None => format!("known are {}", self.schemes().collect::<Vec<_>>().join(", ")),
            };
            return Err(Error::new(ErrorKind::Invalid, format!("unknown engine \"{scheme}:\"; {hint}")));
        };
        let Some(engine) = entry.compiled else {
            let feature = entry.feature;
            let message = format!(
                "the engine \"{scheme}:\" is not compiled in; build latchwork with feature {feature:?}"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        (engine.connect)(url).await
    }
}

/// Opens a client by URL: `sqlite:`, `sqlite:/var/lib/app/locks.db`, `memory:`.
///
/// # Errors
/// As [`Registry::connect`].
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> latchwork::Result<()> {
/// let client = latchwork::connect("memory:").await?;
/// let guard = client.lock("orders/42").acquire().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
pub async fn connect(url: &str) -> Result<Client> {
    Registry::builtin().connect(&url.parse()?).await
}

/// The candidate a typing mistake away from `word`.
pub(super) fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate)).min()?;
    (near.0 <= 1 + word.len() / 4).then_some(near.1)
}
