//! Who holds and who waits, and an operator's hand on it.

use super::data::Data;
use super::failure;
use super::names;
use super::node::{self, Contender, Kind};
use super::options::Scheme;
use super::shared::{Shared, protocol_error, state_of};
use super::wire::{Reply, Request, Session, Stat, WireError};
use crate::engine::{ClaimState, Filter, LockState, Revoke, Revoked};
use crate::{Error, ErrorKind, LockName, Result};

/// How many requests go out in one write.
const BATCH: usize = 200;
/// How many nodes are looked through for locks.
const MOST_NODES: usize = 100_000;

/// One who holds or waits, with its node.
struct Seen {
    path: String,
    kind: Kind,
    data: Vec<u8>,
    stat: Stat,
    state: ClaimState,
}

impl Shared {
    pub(super) async fn look_at(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let session = self.session().await?;
        self.catch_up(&session).await?;
        let names = match filter {
            Filter::Name(name) => vec![name.clone()],
            Filter::Prefix(_) => self.names(&session, filter).await?,
        };
        let mut states = Vec::new();
        for name in names {
            let seen = self.seen(&session, &name).await?;
            if seen.is_empty() {
                continue;
            }
            let mut state = LockState::new(name);
            let holding = node::holders(seen.iter().map(|seen| seen.kind));
            for (at, seen) in seen.into_iter().enumerate() {
                match at < holding {
                    true => state.holders.push(seen.state),
                    false => state.waiters.push(ClaimState { token: None, ..seen.state }),
                }
            }
            states.push(state);
        }
        Ok(states)
    }

    /// The session's member may be behind its leader, and would call a lock free that is held. After the
    /// answer it has everything that was done before the request.
    async fn catch_up(&self, session: &Session) -> Result<()> {
        self.ask(session, Request::sync(), &[]).await.map(drop)
    }

    /// Everybody at one lock, in order.
    async fn seen(&self, session: &Session, name: &LockName) -> Result<Vec<Seen>> {
        let found = match self.options.scheme {
            Scheme::Single => vec![(self.path(&names::flat_path_of(name)), None)],
            Scheme::Sequential => {
                let parent = self.path(&names::path_of(name));
                let list = Request::Children { path: parent.clone() };
                let children = match self.ask(session, list, &[WireError::NO_NODE]).await? {
                    Some(Reply::Children(children)) => children,
                    _ => Vec::new(),
                };
                let path = |one: Contender| (format!("{parent}/{}", one.name), Some(one));
                node::in_order(&children).into_iter().map(path).collect()
            }
        };
        let mut seen = Vec::new();
        for batch in found.chunks(BATCH) {
            let request = |path: &String| Request::Read { path: path.clone(), watch: false };
            let answers =
                session.ask_all(batch.iter().map(|(path, _)| (request(path), None)).collect()).await;
            for ((path, one), answer) in batch.iter().zip(answers) {
                match answer {
                    // What outlives its session is no claim.
                    Ok(Reply::Node { data, stat }) if stat.owner != 0 => {
                        let mut state = state_of(one.as_ref().and_then(Contender::id), &data, &stat);
                        state.token = u64::try_from(stat.czxid).ok();
                        let kind = one.as_ref().map_or(Kind::Exclusive, |one| one.kind);
                        state.permits = kind.permits();
                        seen.push(Seen { path: path.clone(), kind, data, stat, state });
                    }
                    Ok(Reply::Node { .. }) => {}
                    Err(wire_error) if wire_error == WireError::NO_NODE => {}
                    Err(wire_error) => {
                        return Err(failure::failed(&wire_error, &request(path), &self.options));
                    }
                    Ok(_) => return Err(protocol_error()),
                }
            }
        }
        Ok(seen)
    }

    /// Every name below the chroot that somebody may hold, level by level.
    async fn names(&self, session: &Session, filter: &Filter) -> Result<Vec<LockName>> {
        let (mut names, mut level, mut looked) = (Vec::new(), vec![String::new()], 0);
        while !level.is_empty() {
            looked += level.len();
            if looked > MOST_NODES {
                let message = format!(
                    "zookeeper: there are more than {MOST_NODES} nodes below {:?}; name a lock, or put a path with fewer nodes \
                     behind the hosts in the URL",
                    self.options.chroot_shown()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let mut below = Vec::new();
            for batch in level.chunks(BATCH) {
                for (path, children) in self.children(session, batch).await? {
                    names.extend(self.names_at(&path, &children).filter(|name| filter.matches(name)));
                    let inner = children.iter().filter(|child| match self.options.scheme {
                        Scheme::Single => false,
                        // What ends with its session has nothing below it.
                        Scheme::Sequential => Kind::of(child).is_none_or(|(kind, _)| kind == Kind::Unknown),
                    });
                    let is_the_server_s = |child: &&String| path.is_empty() && child.as_str() == "zookeeper";
                    below.extend(
                        inner.filter(|child| !is_the_server_s(child)).map(|child| format!("{path}/{child}")),
                    );
                }
            }
            level = below;
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The locks that this node and its children stand for.
    fn names_at<'a>(&self, path: &'a str, children: &'a [String]) -> Box<dyn Iterator<Item = LockName> + 'a> {
        match self.options.scheme {
            Scheme::Single => {
                Box::new(children.iter().filter_map(|child| names::flat_name_of(&format!("/{child}"))))
            }
            Scheme::Sequential => {
                let is_used = children.iter().any(|child| Kind::of(child).is_some());
                Box::new(names::name_of(path).filter(|_| is_used).into_iter())
            }
        }
    }

    async fn children(&self, session: &Session, paths: &[String]) -> Result<Vec<(String, Vec<String>)>> {
        let request = |path: &String| {
            let whole = self.path(path);
            Request::Children { path: if whole.is_empty() { "/".to_owned() } else { whole } }
        };
        let answers = session.ask_all(paths.iter().map(|path| (request(path), None)).collect()).await;
        let mut found = Vec::new();
        for (path, answer) in paths.iter().zip(answers) {
            match answer {
                Ok(Reply::Children(children)) => found.push((path.clone(), children)),
                // Others may keep parts of the tree to themselves.
                Err(wire_error) if [WireError::NO_NODE, WireError::NO_AUTH].contains(&wire_error) => {}
                Err(wire_error) => return Err(failure::failed(&wire_error, &request(path), &self.options)),
                Ok(_) => return Err(protocol_error()),
            }
        }
        Ok(found)
    }

    pub(super) async fn take_away(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let session = self.session().await?;
        self.catch_up(&session).await?;
        let seen = self.seen(&session, &lock.name).await?;
        let holding = node::holders(seen.iter().map(|seen| seen.kind));
        // A claim that came back later under the same id has another node.
        let is_named = |seen: &&Seen| {
            let is_it = |holder: &ClaimState| holder.id == seen.state.id && holder.token == seen.state.token;
            lock.holders.iter().any(is_it)
        };
        let named: Vec<_> = seen[..holding].iter().filter(is_named).collect();
        for seen in &named {
            how.check(&seen.state).map_err(|error| error.about(&lock.name))?;
        }
        let mut revoked = Revoked::NotHeld;
        for seen in named {
            let fine = [WireError::NO_NODE, WireError::BAD_VERSION];
            let request = match how {
                Revoke::Now | Revoke::NowAlsoForeign => {
                    if seen.state.foreign.is_none() {
                        // Its client hears first that the node was written, and then knows why it is gone.
                        self.ask(&session, mark_revoked(seen)?, &fine).await?;
                    }
                    Request::Delete { path: seen.path.clone() }
                }
                Revoke::AtLeaseEnd => mark_revoked(seen)?,
            };
            if self.ask(&session, request, &fine).await?.is_some() {
                revoked = Revoked::Done;
            }
        }
        Ok(revoked)
    }
}

/// The holder's client watches its node, reads this, and lets go.
fn mark_revoked(seen: &Seen) -> Result<Request> {
    let data = Data::read(&seen.data).ok_or_else(protocol_error)?;
    let data = Data { is_revoked: true, ..data }.bytes();
    Ok(Request::Write { path: seen.path.clone(), data, version: seen.stat.version })
}
