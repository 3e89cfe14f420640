//! Cells: the value as it is, in the node `<chroot>/%cells/<name>`, so that `zkCli` can `get` and `set` it.
//!
//! No lock's path begins so. A node without data (which is not the same as empty data) is a cell that is not set: cells are
//! never deleted, only emptied, and their versions go on. The version is made of the transaction that made the node and of
//! how often it was written since: both are needed if somebody else deletes the node and makes it again.

use std::time::Duration;

use super::shared::{Shared, protocol_error};
use super::wire::{Answer, Create, Reply, Request, Session, Stat, Watcher, WireError};
use super::{ZooKeeper, failure, names};
use crate::engine::{CellState, Cells, Version, Written};
use crate::{Effect, LockName, Result};

/// A node as it was found.
struct Found {
    data: Option<Vec<u8>>,
    stat: Stat,
}

impl Found {
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
    let (made, written) = (stat.czxid as u64, stat.version as u32);
    Version::new(u128::from(made) << 32 | u128::from(written))
}

impl Shared {
    fn cell_path(&self, name: &LockName) -> String {
        self.path(&format!("/%cells{}", names::path_of(name)))
    }

    /// After everything that was done before, on whichever server.
    async fn find_cell(&self, session: &Session, path: &str) -> Result<Option<Found>> {
        self.found_cell(path, look(session, path, None).await)
    }

    fn found_cell(&self, path: &str, answers: Vec<Answer>) -> Result<Option<Found>> {
        let [synced, found] = <[Answer; 2]>::try_from(answers).map_err(|_| protocol_error())?;
        let sync = Request::Sync { path: path.to_owned() };
        let read = Request::ReadCell { path: path.to_owned(), watch: false };
        if let Err(wire_error) = synced
            && wire_error != WireError::NO_NODE
        {
            return Err(failure::failed(&wire_error, &sync, &self.options));
        }
        match found {
            Ok(Reply::Cell { data, stat }) => Ok(Some(Found { data, stat })),
            Err(wire_error) if wire_error == WireError::NO_NODE => Ok(None),
            Err(wire_error) => Err(failure::failed(&wire_error, &read, &self.options)),
            Ok(_) => Err(protocol_error()),
        }
    }

    /// Makes the node and those on the way to it, without data. Nobody can tell whether that was done.
    async fn make_cell(&self, session: &Session, path: &str) -> Result<()> {
        let ends = path.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
        let requests: Vec<_> = ends
            .chain([path.len()])
            .map(|end| {
                let (path, data) = (path[..end].to_owned(), Vec::new());
                match end > self.options.chroot.len() {
                    true => Request::MakeCell { path },
                    false => Request::Create { path, data, kind: Create::Persistent },
                }
            })
            .collect();
        let last = requests.last().cloned();
        let answers = session.ask_all(requests.into_iter().map(|request| (request, None)).collect()).await;
        match answers.into_iter().last().zip(last) {
            Some((Err(wire_error), request)) if wire_error != WireError::NODE_EXISTS => {
                Err(failure::failed(&wire_error, &request, &self.options).with_effect(Effect::None))
            }
            _ => Ok(()),
        }
    }

    /// The node, made if it is not there.
    async fn find_or_make_cell(&self, session: &Session, path: &str) -> Result<Option<Found>> {
        if let Some(found) = self.find_cell(session, path).await? {
            return Ok(Some(found));
        }
        self.make_cell(session, path).await?;
        self.find_cell(session, path).await
    }
}

/// Looks at a cell, on a server that is not behind. Sent when this returns.
fn look(
    session: &Session,
    path: &str,
    watcher: Option<Watcher>,
) -> impl Future<Output = Vec<Answer>> + Send + use<> {
    let sync = Request::Sync { path: path.to_owned() };
    let read = Request::ReadCell { path: path.to_owned(), watch: watcher.is_some() };
    session.post(vec![(sync, None), (read, watcher)])
}

impl Cells for ZooKeeper {
    /// Every change is told, and every connection that broke.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_secs(60 * 60)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let session = self.shared.session().await?;
        let found = self.shared.find_cell(&session, &self.shared.cell_path(name)).await?;
        Ok(found.map_or(CellState::ABSENT, Found::state))
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(Cells::read(self, name).await?.version != seen)
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        let (shared, path) = (&self.shared, self.shared.cell_path(name));
        let session = shared.session().await?;
        let found = match seen == Version::ABSENT {
            true => shared.find_or_make_cell(&session, &path).await?,
            false => shared.find_cell(&session, &path).await?,
        };
        // The server compares how often it was written, and nothing else.
        let Some(found) = found.filter(|found| found.version() == seen) else { return Ok(Written::Changed) };
        let write = Request::WriteCell { path, data: value.map(<[u8]>::to_vec), version: found.stat.version };
        match shared.ask(&session, write, &[WireError::BAD_VERSION, WireError::NO_NODE]).await? {
            None => Ok(Written::Changed),
            Some(Reply::Written(_)) if value.is_none() => Ok(Written::Done(Version::ABSENT)),
            Some(Reply::Written(stat)) => Ok(Written::Done(version(&stat))),
            Some(_) => Err(protocol_error().with_effect(Effect::Unknown)),
        }
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let (shared, path) = (&self.shared, self.shared.cell_path(name));
        let session = shared.session().await?;
        // The server watches only what is there.
        shared.find_or_make_cell(&session, &path).await?;
        let (listening, looking) = shared.cell_watches.join(&path, |watcher| look(&session, &path, watcher));
        let bell = listening.bell.clone();
        let mut told = std::pin::pin!(bell.notified());
        told.as_mut().enable();
        drop(listening);
        let found = shared.found_cell(&path, looking.await)?;
        if found.is_some_and(|found| found.version() == seen) {
            told.await;
        }
        Ok(())
    }
}
