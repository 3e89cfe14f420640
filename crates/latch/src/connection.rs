//! A connection to the engine of the URL, and the descriptor that keeps its session alive.

use std::os::fd::OwnedFd;
use std::time::Duration;

use latchwork::engine::{EngineUrl, Registry};
use latchwork::engines::Sqlite;
use latchwork::{Client, Error, ErrorKind};
use tokio::runtime::Builder;

use crate::daily_warning::warn_once_a_day;
use crate::duration::rounded;
use crate::failure::Failure;
use crate::output::Output;
use crate::run::cannot_start;
use crate::target::Target;

/// The time limit for opening a database file, the same as that of a request.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// A connected client.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// The session lives while any process has this descriptor open. `None` if the engine has no such
    /// descriptor.
    pub(crate) session: Option<OwnedFd>,
}

impl Connection {
    /// Connects, and reports the warnings of the engine.
    pub(crate) async fn open(url: &EngineUrl, output: Output) -> Result<Self, Failure> {
        let opened = Self::try_open(url).await.map_err(|error| Failure::from(error).of_engine())?;
        for warning in &opened.client.guarantees().warnings {
            warn_once_a_day(output, url, warning);
        }
        Ok(opened)
    }

    async fn try_open(url: &EngineUrl) -> latchwork::Result<Self> {
        if url.scheme() != "sqlite" {
            return Ok(Self { client: Registry::builtin().connect(url).await?, session: None });
        }
        let opening = tokio::time::timeout(OPEN_LIMIT, Sqlite::connect(url));
        let engine = opening.await.unwrap_or_else(|_| Err(database_is_locked(url)))?;
        let session = Some(engine.session_descriptor()?);
        Ok(Self { client: Client::new(engine), session })
    }
}

fn database_is_locked(url: &EngineUrl) -> Error {
    let name = match url.path() {
        "" => "the default database".to_owned(),
        path => format!("the database {path:?}"),
    };
    let message = format!(
        "{name} could not be opened within {}: another process has it locked, or was stopped while it wrote to it",
        rounded(OPEN_LIMIT)
    );
    Error::new(ErrorKind::Unreachable, message)
}

/// Connects and runs `work`, which takes a few requests.
pub(crate) fn with_client<T>(
    target: &Target,
    output: Output,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot_start)?;
    let done = runtime.block_on(async { work(&Connection::open(&target.url, output).await?.client).await });
    runtime.shutdown_background();
    done
}
