//! The engine behind the URL, and what keeps its session alive.

use std::os::fd::OwnedFd;

use latchwork::Client;
use latchwork::engine::{EngineUrl, Registry};
use latchwork::engines::Sqlite;

use crate::failure::Failure;

/// An open client, and the descriptor whose holders keep its session alive, on engines that have one.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) session: Option<OwnedFd>,
}

impl Connection {
    pub(crate) async fn open(url: &EngineUrl) -> Result<Self, Failure> {
        Self::try_open(url).await.map_err(|error| Failure::from(error).about_database(url))
    }

    async fn try_open(url: &EngineUrl) -> latchwork::Result<Self> {
        if url.scheme() != "sqlite" {
            return Ok(Self { client: Registry::builtin().connect(url).await?, session: None });
        }
        let engine = Sqlite::connect(url).await?;
        let session = Some(engine.session_descriptor()?);
        Ok(Self { client: Client::new(engine), session })
    }
}
