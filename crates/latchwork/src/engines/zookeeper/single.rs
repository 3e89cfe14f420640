//! `scheme=single`: one node that ends with its session; who made it holds, and the others watch it.
//!
//! Not fair: when it goes, whoever is fastest makes the next.

use super::claims::{Entry, Node, Watch};
use super::data::Data;
use super::failure;
use super::names;
use super::shared::{Shared, protocol_error, state_of};
use super::wire::{Create, Reply, Request, Session, WireError};
use crate::engine::{Busy, Claim, Mode, Released, Verdict, Wake};
use crate::{Effect, Error, ErrorKind, Loss, Result};

/// How often the node may change hands under a claim that looks at it, before that is told.
const MOST_LOOKS: u32 = 100;

impl Shared {
    pub(super) async fn claim_single(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive {
            let message = "zookeeper: scheme=single supports only exclusive locks; scheme=sequential also supports readers and writers";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let path = self.path(&names::flat_path_of(&claim.name));
        for _ in 0..MOST_LOOKS {
            let session = self.session().await?;
            if let Some(verdict) = self.take(&session, claim, &path).await? {
                return Ok(verdict);
            }
        }
        let message = "zookeeper: the node of this lock changed whenever it was read";
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    }

    /// Makes the node, and reads and watches whichever is there then, in one write: what happens to it between this and
    /// `wait` is not missed, and a holder hears of a removal before its release is answered. `None`: once more.
    async fn take(&self, session: &Session, claim: &Claim, path: &str) -> Result<Option<Verdict>> {
        let create =
            Request::Create { path: path.to_owned(), data: Data::of(claim), kind: Create::Ephemeral };
        let read = Request::Read { path: path.to_owned(), watch: true };
        let known = self.claims.get(claim.id);
        let is_first = known.is_none();
        if known.is_none_or(|entry| entry.session != session.id()) {
            self.claims.asked(claim.id, session.id());
        }
        let watcher = self.claims.watcher(claim.id);
        let [created, found] = session.ask([(create.clone(), None), (read.clone(), Some(watcher))]).await;
        match created {
            Ok(_) => {}
            Err(wire_error) if wire_error == WireError::NODE_EXISTS => {}
            Err(wire_error @ WireError::Unanswered(_)) => {
                return Err(failure::failed(&wire_error, &create, &self.options));
            }
            Err(wire_error) => {
                // In an earlier attempt it may have been made all the same.
                let effect = if is_first { Effect::None } else { Effect::Unknown };
                if is_first {
                    self.claims.forget(claim.id);
                }
                return match wire_error == WireError::NO_NODE && !self.options.chroot.is_empty() {
                    true => self.make_parents(session, &self.options.chroot).await.map(|()| None),
                    false => Err(failure::failed(&wire_error, &create, &self.options).with_effect(effect)),
                };
            }
        }
        let (data, stat) = match found {
            Ok(Reply::Node { data, stat }) => (data, stat),
            Err(wire_error) if wire_error == WireError::NO_NODE => return Ok(None),
            Err(wire_error) => return Err(failure::half_done(&wire_error, &self.options)),
            Ok(_) => return Err(protocol_error().with_effect(Effect::Unknown)),
        };
        let is_mine = Data::read(&data).is_some_and(|data| data.id == claim.id);
        if is_mine && stat.owner == session.id() {
            let node = Node { path: path.to_owned(), czxid: stat.czxid };
            self.claims.update(claim.id, |entry| entry.node = Some(node));
            return self.grant(session, claim.id, stat.czxid).map(|grant| Some(Verdict::Granted(grant)));
        }
        if is_mine {
            // Left by a session that is over: the server will remove it, and until then it is in everybody's way.
            self.ask(session, Request::Delete { path: path.to_owned() }, &[WireError::NO_NODE]).await?;
            return Ok(None);
        }
        if stat.owner == 0 {
            self.claims.forget(claim.id);
            let message = format!(
                "zookeeper: the node {path:?} outlives its session, so it is no lock of scheme=single"
            );
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        if claim.wait_lease.is_zero() {
            self.claims.forget(claim.id);
        }
        let mut busy = Busy::new(session.timeout() / 3);
        let mut holder = state_of(None, &data, &stat);
        holder.token = u64::try_from(stat.czxid).ok();
        busy.holder = Some(holder);
        Ok(Some(Verdict::Busy(busy)))
    }

    /// The claim watches already.
    pub(super) async fn wait_single(&self, claim: &Claim) -> Result<Wake> {
        if let Some(entry) = self.claims.get(claim.id) {
            entry.bell.notified().await;
        }
        Ok(Wake::Recheck)
    }

    /// Removes the node if it is this claim's. A claim that is watched, and of which no removal was told, is the holder;
    /// everything else is read first. A delete whose answer is missing is never simply repeated: the node may be another's.
    pub(super) async fn release_single(&self, claim: &Claim) -> Result<Released> {
        let session = self.session().await?;
        let path = self.path(&names::flat_path_of(&claim.name));
        let entry = self.claims.get(claim.id);
        let is_sure = entry.as_ref().is_some_and(|entry| is_surely_there(entry, session.id()));
        self.claims.update(claim.id, |entry| entry.own = Watch::default());
        let released = match is_sure || self.is_there(&session, claim, &path).await? {
            false => Released::NotHeld,
            true => match self.ask(&session, Request::Delete { path }, &[WireError::NO_NODE]).await? {
                Some(_) => Released::Freed,
                None => Released::NotHeld,
            },
        };
        self.claims.forget(claim.id);
        Ok(released)
    }

    async fn is_there(&self, session: &Session, claim: &Claim, path: &str) -> Result<bool> {
        let sync = Request::Sync { path: path.to_owned() };
        let read = Request::Read { path: path.to_owned(), watch: false };
        let [_, found] = session.ask([(sync, None), (read.clone(), None)]).await;
        match found {
            Ok(Reply::Node { data, .. }) => Ok(Data::read(&data).is_some_and(|data| data.id == claim.id)),
            Err(wire_error) if wire_error == WireError::NO_NODE => Ok(false),
            Err(wire_error) => Err(failure::failed(&wire_error, &read, &self.options)),
            Ok(_) => Err(protocol_error()),
        }
    }
}

fn is_surely_there(entry: &Entry, session: i64) -> bool {
    let is_lost = entry.lost.is_some_and(|loss| loss != Loss::Revoked);
    entry.session == session && entry.is_held && entry.own.stands() && !is_lost && !entry.is_gone
}
