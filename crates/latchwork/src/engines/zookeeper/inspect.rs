//! Lists holders and waiters, and revokes claims.

use super::contender_node::{self, ContenderNode};
use super::errors::{self, protocol_error};
use super::node_data::NodeData;
use super::node_kind::NodeKind;
use super::options::Scheme;
use super::paths;
use super::shared::{Shared, claim_state};
use super::wire::{NodeRequest, Reply, Session, Stat, WireError};
use crate::engine::{ClaimState, Filter, LockState, Revoke, Revoked};
use crate::{Error, ErrorKind, LockName, Result};

/// The number of requests that go out in one write.
const BATCH: usize = 200;
/// The number of nodes that are searched for locks.
const MAX_NODES: usize = 100_000;

/// A contender for a lock, as its node was read.
struct NodeSnapshot {
    path: String,
    kind: NodeKind,
    data: Vec<u8>,
    stat: Stat,
    state: ClaimState,
}

impl Shared {
    pub(super) async fn inspect_all(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let session = self.session().await?;
        self.sync(&session).await?;
        let names = match filter {
            Filter::Name(name) => vec![name.clone()],
            Filter::Prefix(_) => self.find_names(&session, filter).await?,
        };
        let mut states = Vec::new();
        for name in names {
            let nodes = self.read_contenders(&session, &name).await?;
            if nodes.is_empty() {
                continue;
            }
            let mut state = LockState::new(name);
            let holders = contender_node::count_holders(nodes.iter().map(|node| node.kind));
            for (at, node) in nodes.into_iter().enumerate() {
                match at < holders {
                    true => state.holders.push(node.state),
                    false => state.waiters.push(ClaimState { token: None, ..node.state }),
                }
            }
            states.push(state);
        }
        Ok(states)
    }

    /// Brings the connected server up to date. It may be behind its leader, and would show a held lock as
    /// free. After the reply it has everything that was done before the request.
    async fn sync(&self, session: &Session) -> Result<()> {
        self.send(session, NodeRequest::Sync { path: "/".to_owned() }, &[]).await.map(drop)
    }

    /// Reads the nodes of all contenders for one lock, in order.
    async fn read_contenders(&self, session: &Session, name: &LockName) -> Result<Vec<NodeSnapshot>> {
        let found = match self.options.scheme {
            Scheme::Single => vec![(self.path(&paths::flat_path_of(name)), None)],
            Scheme::Sequential => {
                let parent = self.path(&paths::path_of(name));
                let children = self.list(session, &parent).await?;
                let path =
                    |contender: ContenderNode| (format!("{parent}/{}", contender.name), Some(contender));
                contender_node::in_order(&children).into_iter().map(path).collect()
            }
        };
        let mut nodes = Vec::new();
        for batch in found.chunks(BATCH) {
            let request = |path: &String| NodeRequest::GetData { path: path.clone(), watch: false };
            let replies =
                session.send_all(batch.iter().map(|(path, _)| (request(path), None)).collect()).await;
            for ((path, contender), reply) in batch.iter().zip(replies) {
                match reply {
                    // A node that is not ephemeral is not a claim.
                    Ok(Reply::Node { data, stat }) if stat.ephemeral_owner != 0 => {
                        let mut state =
                            claim_state(contender.as_ref().and_then(ContenderNode::id), &data, &stat);
                        state.token = u64::try_from(stat.czxid).ok();
                        let kind = contender.as_ref().map_or(NodeKind::Exclusive, |contender| contender.kind);
                        state.permits = kind.permits();
                        nodes.push(NodeSnapshot { path: path.clone(), kind, data, stat, state });
                    }
                    Ok(Reply::Node { .. }) => {}
                    Err(wire_error) if wire_error == WireError::NO_NODE => {}
                    Err(wire_error) => {
                        return Err(errors::request_failed(&wire_error, &request(path), &self.options));
                    }
                    Ok(_) => return Err(protocol_error()),
                }
            }
        }
        Ok(nodes)
    }

    /// The names of all locks below the chroot that may be held, level by level.
    async fn find_names(&self, session: &Session, filter: &Filter) -> Result<Vec<LockName>> {
        let (mut names, mut level, mut count) = (Vec::new(), vec![String::new()], 0);
        while !level.is_empty() {
            count += level.len();
            if count > MAX_NODES {
                let message = format!(
                    "zookeeper: there are more than {MAX_NODES} nodes below {:?}; name a lock, or put a path with fewer nodes \
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
                        // An ephemeral node has no children.
                        Scheme::Sequential => {
                            NodeKind::parse(child).is_none_or(|(kind, _)| kind == NodeKind::Unknown)
                        }
                    });
                    let is_reserved = |child: &&String| path.is_empty() && child.as_str() == "zookeeper";
                    below.extend(
                        inner.filter(|child| !is_reserved(child)).map(|child| format!("{path}/{child}")),
                    );
                }
            }
            level = below;
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The names of the locks at this node and its children.
    fn names_at<'a>(&self, path: &'a str, children: &'a [String]) -> Box<dyn Iterator<Item = LockName> + 'a> {
        match self.options.scheme {
            Scheme::Single => {
                Box::new(children.iter().filter_map(|child| paths::flat_name_of(&format!("/{child}"))))
            }
            Scheme::Sequential => {
                let has_claims = children.iter().any(|child| NodeKind::parse(child).is_some());
                Box::new(paths::name_of(path).filter(|_| has_claims).into_iter())
            }
        }
    }

    async fn children(&self, session: &Session, paths: &[String]) -> Result<Vec<(String, Vec<String>)>> {
        let request = |path: &String| {
            let full = self.path(path);
            NodeRequest::GetChildren { path: if full.is_empty() { "/".to_owned() } else { full } }
        };
        let replies = session.send_all(paths.iter().map(|path| (request(path), None)).collect()).await;
        let mut found = Vec::new();
        for (path, reply) in paths.iter().zip(replies) {
            match reply {
                Ok(Reply::Children(children)) => found.push((path.clone(), children)),
                // Other programs may keep parts of the tree private.
                Err(wire_error) if [WireError::NO_NODE, WireError::NO_AUTH].contains(&wire_error) => {}
                Err(wire_error) => {
                    return Err(errors::request_failed(&wire_error, &request(path), &self.options));
                }
                Ok(_) => return Err(protocol_error()),
            }
        }
        Ok(found)
    }

    pub(super) async fn revoke_holders(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let session = self.session().await?;
        self.sync(&session).await?;
        let nodes = self.read_contenders(&session, &lock.name).await?;
        let holders = contender_node::count_holders(nodes.iter().map(|node| node.kind));
        // A claim that was repeated later with the same id has another node, and so another token.
        let is_named = |node: &&NodeSnapshot| {
            let is_same =
                |holder: &ClaimState| holder.id == node.state.id && holder.token == node.state.token;
            lock.holders.iter().any(is_same)
        };
        let named: Vec<_> = nodes[..holders].iter().filter(is_named).collect();
        for node in &named {
            how.check(&node.state).map_err(|error| error.about(&lock.name))?;
        }
        let mut revoked = Revoked::NotHeld;
        for node in named {
            let expected = [WireError::NO_NODE, WireError::BAD_VERSION];
            let request = match how {
                Revoke::Now | Revoke::NowAlsoForeign => {
                    if node.state.foreign.is_none() {
                        // The holder's watch reports the write first, so the holder knows why the node is
                        // deleted.
                        self.send(&session, mark_revoked(node)?, &expected).await?;
                    }
                    NodeRequest::Delete { path: node.path.clone() }
                }
                Revoke::AtLeaseEnd => mark_revoked(node)?,
            };
            if self.send(&session, request, &expected).await?.is_some() {
                revoked = Revoked::Done;
            }
        }
        Ok(revoked)
    }
}

/// The request that marks a claim as revoked. The holder's client watches its node, reads the mark, and
/// releases the lock.
fn mark_revoked(node: &NodeSnapshot) -> Result<NodeRequest> {
    let data = NodeData::parse(&node.data).ok_or_else(protocol_error)?;
    let data = NodeData { is_revoked: true, ..data }.encode();
    Ok(NodeRequest::SetData { path: node.path.clone(), data, version: node.stat.version })
}
