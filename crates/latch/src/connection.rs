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
        Self::try_open(url).await.map_err(|error| {
            let named = error.to_string().contains("LATCH_URL");
            let failure = Failure::from(error);
            match url.scheme() {
                "sqlite" if !named => {
                    failure.hint("choose another database with LATCH_URL=sqlite:/path/locks.db")
                }
                _ => failure,
            }
        })
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
