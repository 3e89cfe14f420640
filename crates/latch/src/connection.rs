//! The engine behind the URL, and what keeps its session alive.

use std::os::fd::OwnedFd;
use std::time::Duration;

use latchwork::engine::{EngineUrl, Registry};
use latchwork::engines::Sqlite;
use latchwork::{Client, Error, ErrorKind};
use tokio::runtime::Builder;

use crate::daily::warn_at_most_daily;
use crate::duration::rounded;
use crate::failure::Failure;
use crate::output::Output;
use crate::run::no_resources;
use crate::target::Target;

/// The time limit for opening a database file, that of a request.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// An open client, and the descriptor whose holders keep its session alive, on engines that have one.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) session: Option<OwnedFd>,
}

impl Connection {
    /// Connects, and passes on what the engine warns of.
    pub(crate) async fn open(url: &EngineUrl, output: Output) -> Result<Self, Failure> {
        let opened = Self::try_open(url).await.map_err(|error| Failure::from(error).of_engine())?;
        for warning in &opened.client.guarantees().warnings {
            warn_at_most_daily(output, url, warning);
        }
        Ok(opened)
    }

    async fn try_open(url: &EngineUrl) -> latchwork::Result<Self> {
        if url.scheme() != "sqlite" {
            return Ok(Self { client: Registry::builtin().connect(url).await?, session: None });
        }
        let opening = tokio::time::timeout(OPEN_LIMIT, Sqlite::connect(url));
        let engine = opening.await.unwrap_or_else(|_| Err(locked()))?;
        let session = Some(engine.session_descriptor()?);
        Ok(Self { client: Client::new(engine), session })
    }
}

fn locked() -> Error {
    let message = format!(
        "the database could not be opened within {}: another process keeps it locked, or was stopped while it wrote",
        rounded(OPEN_LIMIT)
    );
    Error::new(ErrorKind::Unreachable, message)
}

/// Connects, and does what takes a few requests.
pub(crate) fn with_client<T>(
    target: &Target,
    output: Output,
    work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_resources)?;
    let done = runtime.block_on(async { work(&Connection::open(&target.url, output).await?.client).await });
    runtime.shutdown_background();
    done
}
