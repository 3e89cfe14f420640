//! Cells: the plain value in the node `<chroot>/%cells/<name>`, so that `zkCli` can `get` and `set` it.
//!
//! No lock's path begins with `%cells`. A node with null data (which differs from empty data) is a cell that
//! is not set: cells are never deleted, only emptied, and their versions continue. A version consists of the
//! transaction that created the node and the number of writes since. Both are needed, in case another program
//! deletes the node and creates it again.

use std::time::Duration;

use super::errors::{self, protocol_error};
use super::shared::Shared;
use super::wire::{NodeRequest, Reply, ReplyResult, Session, Stat, Watcher, WireError};
use super::{ZooKeeper, paths};
use crate::engine::{CellState, Cells, Version, Written};
use crate::{Effect, LockName, Result};

/// The node of a cell.
struct CellNode {
    data: Option<Vec<u8>>,
    stat: Stat,
}

impl CellNode {
    fn state(self) -> CellState {
        CellState { version: self.version(), value: self.data }
    }

    fn version(&self) -> Version {
        match self.data {
            None => Version::ABSENT,
            Some(_) => version(&self.stat),
        }
    }
}

fn version(stat: &Stat) -> Version {
    let (created, writes) = (stat.czxid as u64, stat.version as u32);
    Version::new(u128::from(created) << 32 | u128::from(writes))
}

impl Shared {
    fn cell_path(&self, name: &LockName) -> String {
        self.path(&format!("/%cells{}", paths::path_of(name)))
    }

    /// Reads the node of a cell, after a `sync`. `None`: the node does not exist.
    async fn read_cell(&self, session: &Session, path: &str) -> Result<Option<CellNode>> {
        self.parse_cell(path, start_read(session, path, None).await)
    }

    /// Parses the replies to [`start_read`].
    fn parse_cell(&self, path: &str, replies: Vec<ReplyResult>) -> Result<Option<CellNode>> {
        let [synced, read] = <[ReplyResult; 2]>::try_from(replies).map_err(|_| protocol_error())?;
        let failed = |wire_error, request| {
            let error = errors::request_failed(wire_error, request, &self.options);
            Err(error)
        };
        if let Err(wire_error) = synced
            && wire_error != WireError::NO_NODE
        {
            return failed(&wire_error, &NodeRequest::Sync { path: path.to_owned() });
        }
        match read {
            Ok(Reply::Cell { data, stat }) => Ok(Some(CellNode { data, stat })),
            Err(wire_error) if wire_error == WireError::NO_NODE => Ok(None),
            Err(wire_error) => {
                failed(&wire_error, &NodeRequest::GetCell { path: path.to_owned(), watch: false })
            }
            Ok(_) => Err(protocol_error()),
        }
    }

    /// Reads the node of a cell. Creates the node and its parents first if they do not exist. A node with
    /// null data is the same as no node for readers of the cell.
    async fn read_or_create_cell(&self, session: &Session, path: &str) -> Result<Option<CellNode>> {
        if let Some(node) = self.read_cell(session, path).await? {
            return Ok(Some(node));
        }
        self.create_path(session, path, |path| NodeRequest::CreateCell { path }).await?;
        self.read_cell(session, path).await
    }
}

/// Reads the node of a cell, after a `sync`. The requests are sent by this call, and not when its future is
/// polled.
fn start_read(
    session: &Session,
    path: &str,
    watcher: Option<Watcher>,
) -> impl Future<Output = Vec<ReplyResult>> + Send + use<> {
    let sync = NodeRequest::Sync { path: path.to_owned() };
    let read = NodeRequest::GetCell { path: path.to_owned(), watch: watcher.is_some() };
    session.start_send(vec![(sync, None), (read, watcher)])
}

impl Cells for ZooKeeper {
    /// The server reports every change, and the session every broken connection.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_secs(60 * 60)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let session = self.shared.session().await?;
        let node = self.shared.read_cell(&session, &self.shared.cell_path(name)).await?;
        Ok(node.map_or(CellState::ABSENT, CellNode::state))
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(Cells::read(self, name).await?.version != seen)
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        let (shared, path) = (&self.shared, self.shared.cell_path(name));
        let session = shared.session().await?;
        let node = match seen == Version::ABSENT {
            true => shared.read_or_create_cell(&session, &path).await?,
            false => shared.read_cell(&session, &path).await?,
        };
        // The server compares the number of writes alone.
        let Some(node) = node.filter(|node| node.version() == seen) else { return Ok(Written::Changed) };
        let (data, version_seen) = (value.map(<[u8]>::to_vec), node.stat.version);
        let write = NodeRequest::SetCell { path, data, version: version_seen };
        match shared.send(&session, write, &[WireError::BAD_VERSION, WireError::NO_NODE]).await? {
            None => Ok(Written::Changed),
            Some(Reply::Written(_)) if value.is_none() => Ok(Written::Done(Version::ABSENT)),
            Some(Reply::Written(stat)) => Ok(Written::Done(version(&stat))),
            Some(_) => Err(protocol_error().with_effect(Effect::Unknown)),
        }
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let (shared, path) = (&self.shared, self.shared.cell_path(name));
        let session = shared.session().await?;
        // The server watches the data of existing nodes only.
        shared.read_or_create_cell(&session, &path).await?;
        let (active, reading) =
            shared.cell_watches.join(&path, |watcher| start_read(&session, &path, watcher));
        let notify = active.notify.clone();
        let mut notified = std::pin::pin!(notify.notified());
        notified.as_mut().enable();
        drop(active);
        let node = shared.parse_cell(&path, reading.await)?;
        if node.is_some_and(|node| node.version() == seen) {
            notified.await;
        }
        Ok(())
    }
}
