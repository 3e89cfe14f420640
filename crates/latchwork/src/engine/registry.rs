//! From a URL to a client.

use std::future::Future;
use std::pin::Pin;

use super::EngineUrl;
use crate::{Client, Error, ErrorKind, Guarantees, Result, engines};

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Client>> + Send + 'a>>;

/// The engines by their URL schemes. A plain value: no state is global.
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<EngineEntry>,
}

/// An engine, and whether it is compiled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineEntry {
    pub(crate) schemes: &'static [&'static str],
    pub(crate) feature: &'static str,
    pub(crate) compiled: Option<CompiledEngine>,
}

/// How to use an engine that is compiled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompiledEngine {
    pub(crate) connect: for<'a> fn(&'a EngineUrl) -> Connecting<'a>,
    /// One for each way to lock.
    pub(crate) guarantees: fn() -> Vec<Guarantees>,
}

impl Registry {
    /// The engines of this crate.
    pub fn builtin() -> Self {
        Self { entries: engines::all() }
    }

    /// The URL schemes of the compiled engines.
    pub fn schemes(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().filter(|entry| entry.compiled.is_some()).flat_map(|entry| entry.schemes).copied()
    }

    /// The guarantees of each compiled engine.
    pub fn guarantees(&self) -> Vec<Guarantees> {
        self.entries
            .iter()
            .filter_map(|entry| entry.compiled)
            .flat_map(|engine| (engine.guarantees)())
            .collect()
    }

    /// Connects to the engine of `url`.
    ///
    /// # Guarantees
    /// No lock is acquired, and no stored lock is changed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown scheme or option, [`ErrorKind::Unsupported`] for an engine that
    /// is not compiled in, and the errors of connecting to the server.
    ///
    /// # Cancel safety
    /// May be dropped at any time; no lock is taken.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::engine::Registry::builtin().connect(&"memory:".parse()?).await?;
    /// assert_eq!(client.guarantees().engine, "memory");
    /// # Ok(()) }
    /// ```
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

/// Opens a client by URL: `sqlite:`, `redis://localhost`, `memory:`. The [front page](crate) lists all
/// schemes.
///
/// # Guarantees
/// As [`Registry::connect`].
///
/// # Cancel safety
/// May be dropped at any time; no lock is taken.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a text that is not an engine URL, and the errors of [`Registry::connect`].
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

/// The candidate closest to `word`, if it is only a typing mistake away.
pub(super) fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate)).min()?;
    (near.0 <= 1 + word.len() / 4).then_some(near.1)
}
