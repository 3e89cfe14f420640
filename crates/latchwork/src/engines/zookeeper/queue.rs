//! `scheme=sequential`: every claim is a numbered node that ends with its session, and the least number holds.

use super::claims::{Entry, Node, Place, Watch};
use super::data::Data;
use super::failure;
use super::fast_path::{Plan, Standing};
use super::names;
use super::node::{self, Contender, Kind};
use super::shared::{Shared, protocol_error, state_of};
use super::wire::{Answer, Create, Reply, Request, Session, WireError};
use crate::engine::{Busy, Claim, ClaimState, Mark, Mode, Released, Verdict, Wake};
use crate::{Effect, Error, ErrorKind, Result};

/// How often a queue may change under a claim that looks at it, before that is told.
const MOST_LOOKS: u32 = 100;

/// What a look at the queue came to.
enum Look {
    Holds,
    Waits {
        first: Contender,
        /// It is worth looking again when one of these has left.
        watched: Vec<Contender>,
        holder: Option<ClaimState>,
        position: u32,
    },
    /// Its own node is not there.
    Gone,
    /// Somebody left meanwhile.
    Again,
}

impl Shared {
    pub(super) async fn claim_in_queue(&self, claim: &Claim) -> Result<Verdict> {
        let parent = self.path(&names::path_of(&claim.name));
        let name = node::name_of(claim.id, claim.mode).ok_or_else(protocol_error)?;
        for _ in 0..MOST_LOOKS {
            let session = self.session().await?;
            let (node, children) = match self.claims.get(claim.id) {
                None => match self.enrol(&session, claim, &parent, &name).await? {
                    Some(enrolled) => enrolled,
                    None => continue,
                },
                Some(Entry { node: Some(node), session: owner, own, place, .. }) if owner == session.id() => {
                    if let Some(place) = place.filter(|place| own.stands() && place.is_watched())
                        && let Some(busy) = self.still_waits(&session, &node, place).await?
                    {
                        return Ok(Verdict::Busy(busy));
                    }
                    let list = Request::Children { path: parent.clone() };
                    match self.ask(&session, list, &[WireError::NO_NODE]).await.map_err(after_asking)? {
                        Some(Reply::Children(children)) => (node, children),
                        _ => (node, Vec::new()),
                    }
                }
                Some(_) => match self.find(&session, claim, &parent).await.map_err(after_asking)? {
                    Some(found) => found,
                    None => continue,
                },
            };
            let is_known =
                self.claims.get(claim.id).is_some_and(|entry| entry.is_held || entry.place.is_some());
            if let Err(refused) = claim.mode.same_number(node::first_permit(&children, node.name()))
                && !is_known
            {
                self.withdraw(&session, claim, &node).await?;
                return Err(refused);
            }
            match self.look(&session, &parent, &node, &children).await.map_err(after_asking)? {
                Look::Holds => return self.grant(&session, claim.id, node.czxid).map(Verdict::Granted),
                Look::Gone => self.claims.forget(claim.id),
                Look::Again => {}
                Look::Waits { first, watched, holder, position } => {
                    if claim.wait_lease.is_zero() {
                        self.withdraw(&session, claim, &node).await?;
                    }
                    let mut busy = Busy::new(session.timeout() / 3);
                    busy.holder = holder;
                    busy.position = (!claim.wait_lease.is_zero()).then_some(position);
                    let path = |one: &Contender| format!("{parent}/{}", one.name);
                    let (first, nearest) = (path(&first), watched.iter().map(path).collect::<Vec<_>>());
                    busy.mark = mark(&nearest);
                    self.claims.update(claim.id, |entry| {
                        let former = entry.place.take().filter(|former| former.nearest == nearest);
                        let watches = former.map(|former| former.watches);
                        let watches = watches.unwrap_or_else(|| vec![Watch::default(); nearest.len()]);
                        entry.place = Some(Place { busy: busy.clone(), first, nearest, watches });
                    });
                    return Ok(Verdict::Busy(busy));
                }
            }
        }
        Err(Error::new(
            ErrorKind::Unreachable,
            "zookeeper: the queue of this lock changed whenever it was read",
        )
        .with_effect(Effect::Unknown))
    }

    /// Whether nothing has changed for one who waits. Its watches stand, so the server would have told; that it did not
    /// forget to is seen from the two nodes, and the first one's names the holder. The whole queue is not read: a thousand who
    /// did that now and then would cost more than all who come and go. `None`: it must look.
    async fn still_waits(&self, session: &Session, node: &Node, place: Place) -> Result<Option<Busy>> {
        let read = |path: &String| Request::Read { path: path.clone(), watch: false };
        let others = place.nearest.iter().chain([&node.path]);
        let requests: Vec<_> = [&place.first].into_iter().chain(others).map(read).collect();
        let asked = requests.iter().map(|request| (request.clone(), None)).collect();
        let mut answers = session.ask_all(asked).await.into_iter().zip(&requests);
        let first = answers.next().ok_or_else(protocol_error)?.0;
        let mut busy = place.busy;
        // How many left the queue meanwhile is not known.
        busy.position = None;
        if first.is_err() {
            busy.holder = None;
        }
        for (answer, request) in answers {
            match answer {
                Ok(_) => {}
                // Another client may keep its nodes to itself. It is in the way all the same.
                Err(wire_error) if wire_error == WireError::NO_AUTH => {}
                Err(wire_error) if wire_error == WireError::NO_NODE => return Ok(None),
                Err(wire_error) => {
                    return Err(after_asking(failure::failed(&wire_error, request, &self.options)));
                }
            }
        }
        Ok(Some(busy))
    }

    /// Makes the claim's node and lists its rivals, in one write: a free lock costs one round trip. There is no need to list
    /// if it can be known that there are none. `None`: once more.
    async fn enrol(
        &self,
        session: &Session,
        claim: &Claim,
        parent: &str,
        name: &str,
    ) -> Result<Option<(Node, Vec<String>)>> {
        let create = Request::Create {
            path: format!("{parent}/{name}"),
            data: Data::of(claim),
            kind: Create::EphemeralSequential,
        };
        let plan = self.quiet.plan(parent, claim.mode);
        let mut requests = vec![(create.clone(), None)];
        if !matches!(plan, Plan::Alone(..)) {
            requests.push((Request::Children { path: parent.to_owned() }, None));
        }
        if let Plan::Watch(watch) = &plan {
            let read = Request::Read { path: parent.to_owned(), watch: true };
            requests.push((read, Some(watch.watcher())));
        }
        self.claims.asked(claim.id, session.id());
        let mut answers = session.ask_all(requests).await.into_iter();
        let Some(created) = answers.next() else { return Err(protocol_error().with_effect(Effect::Unknown)) };
        let node = match created {
            Ok(Reply::Created { path, stat }) => Node { path, czxid: stat.czxid },
            // Whether it is there is found out by its name, when it is asked for again.
            Err(wire_error @ WireError::Unanswered(_)) => {
                return Err(failure::failed(&wire_error, &create, &self.options));
            }
            Ok(_) => return Err(protocol_error().with_effect(Effect::Unknown)),
            Err(wire_error) => {
                self.claims.forget(claim.id);
                return match wire_error == WireError::NO_NODE {
                    true => self.make_parents(session, parent).await.map(|()| None),
                    false => Err(failure::failed(&wire_error, &create, &self.options)),
                };
            }
        };
        self.claims.update(claim.id, |entry| entry.node = Some(node.clone()));
        let (listed, watched) = (answers.next(), answers.next());
        let (watch, is_alone) = self.judge(plan, &node, watched);
        self.claims.update(claim.id, |entry| entry.watch = watch);
        let listed = match listed {
            Some(listed) => listed,
            None if is_alone => Ok(Reply::Children(vec![node.name().to_owned()])),
            None => {
                self.quiet.disturbed(parent);
                let [listed] = session.ask([(Request::Children { path: parent.to_owned() }, None)]).await;
                listed
            }
        };
        match listed {
            Ok(Reply::Children(children)) => Ok(Some((node, children))),
            Ok(_) => Err(protocol_error().with_effect(Effect::Unknown)),
            Err(wire_error) => Err(failure::half_done(&wire_error, &self.options)),
        }
    }

    /// The watch that stood when the node was made, and whether it shows that nobody else is there.
    fn judge(&self, plan: Plan, node: &Node, watched: Option<Answer>) -> (Option<Standing>, bool) {
        let (watch, is_alone) = match plan {
            Plan::List(watch) => (watch, false),
            Plan::Alone(number, watch) => (Some(watch), node.number() == Some(number)),
            Plan::Watch(watch) => match watched {
                // Older than the node that was just made: it is the one that this was made in.
                Some(Ok(Reply::Node { stat, .. })) if stat.czxid < node.czxid => {
                    self.quiet.watched(node.parent(), &watch);
                    (Some(watch), false)
                }
                _ => (None, false),
            },
        };
        let watch = watch.filter(Standing::stands);
        let is_alone = is_alone && watch.is_some();
        (watch, is_alone)
    }

    /// Looks for a claim that was sent and not answered, or that was sent in a session that is over. A node of another
    /// session is a corpse that the server has not removed yet: who believes in it holds what another one gets. `None`:
    /// there is nothing.
    async fn find(
        &self,
        session: &Session,
        claim: &Claim,
        parent: &str,
    ) -> Result<Option<(Node, Vec<String>)>> {
        let children = self.newest_children(session, parent).await?;
        let prefix = node::prefix_of(claim.id);
        let mut found = None;
        for child in children.iter().filter(|child| child.starts_with(&prefix)) {
            let path = format!("{parent}/{child}");
            let read = Request::Read { path: path.clone(), watch: false };
            let Some(Reply::Node { stat, .. }) = self.ask(session, read, &[WireError::NO_NODE]).await? else {
                continue;
            };
            match stat.owner == session.id() && found.is_none() {
                true => found = Some(Node { path, czxid: stat.czxid }),
                false => drop(self.ask(session, Request::Delete { path }, &[WireError::NO_NODE]).await?),
            }
        }
        match found {
            None => self.claims.forget(claim.id),
            Some(ref node) => {
                self.claims.asked(claim.id, session.id());
                self.claims.update(claim.id, |entry| entry.node = Some(node.clone()));
            }
        }
        Ok(found.map(|node| (node, children)))
    }

    /// Who is ahead. Read are the first and the nearest of them, to name the holder, and those that only look like
    /// claims: what outlives its session is none.
    async fn look(&self, session: &Session, parent: &str, node: &Node, children: &[String]) -> Result<Look> {
        let all = node::in_order(children);
        let Some(mine) = all.iter().find(|contender| contender.name == node.name()) else {
            return Ok(Look::Gone);
        };
        let mut ahead = node::in_the_way(&all, mine);
        if ahead.is_empty() {
            return Ok(Look::Holds);
        }
        let last = ahead.len() - 1;
        let is_read = |(at, one): (usize, &Contender)| at == 0 || at == last || one.kind == Kind::Unknown;
        let read: Vec<_> =
            ahead.iter().enumerate().filter(|one| is_read(*one)).map(|(_, one)| one.clone()).collect();
        let request =
            |one: &Contender| Request::Read { path: format!("{parent}/{}", one.name), watch: false };
        let answers = session.ask_all(read.iter().map(|one| (request(one), None)).collect()).await;
        let (mut holder, mut has_left, mut no_claims) = (None, false, Vec::new());
        for (one, answer) in read.iter().zip(answers) {
            match answer {
                Ok(Reply::Node { stat, .. }) if stat.owner == 0 => {
                    no_claims.push(one.name.clone());
                    ahead.retain(|other| other != one);
                }
                Ok(Reply::Node { data, stat }) if ahead.first() == Some(one) => {
                    let mut state = state_of(one.id(), &data, &stat);
                    state.token = u64::try_from(stat.czxid).ok();
                    holder = Some(state);
                }
                Ok(Reply::Node { .. }) => {}
                // Nobody stands in the way who is gone. In a queue that moves fast this is the rule: to list it again for
                // that would be in vain the next time, too.
                Err(wire_error) if wire_error == WireError::NO_NODE => {
                    has_left = true;
                    ahead.retain(|other| other != one);
                }
                // Another client may keep its nodes to itself. It is in the way all the same.
                Err(wire_error) if wire_error == WireError::NO_AUTH => {}
                Err(wire_error) => return Err(failure::failed(&wire_error, &request(one), &self.options)),
                Ok(_) => return Err(protocol_error()),
            }
        }
        if mine.is_permit() && has_left {
            return Ok(Look::Again); // Which are the nearest now is another question.
        }
        if mine.is_permit() && !no_claims.is_empty() {
            let claims: Vec<_> =
                children.iter().filter(|child| !no_claims.contains(child)).cloned().collect();
            return Box::pin(self.look(session, parent, node, &claims)).await;
        }
        if ahead.is_empty() {
            // To conclude that the lock is free from somebody's leaving would be rash: the own node may be gone as well.
            return Ok(if has_left { Look::Again } else { Look::Holds });
        }
        let is_ahead =
            |one: &&Contender| one.is_before(mine) && (one.kind != Kind::Unknown || ahead.contains(one));
        let position = all.iter().filter(is_ahead).count() as u32;
        let watched = node::to_watch(&ahead, mine).to_vec();
        let first = ahead.swap_remove(0);
        Ok(Look::Waits { first, watched, holder, position })
    }

    /// A try that found the lock held leaves nothing behind.
    async fn withdraw(&self, session: &Session, claim: &Claim, node: &Node) -> Result<()> {
        let delete = Request::Delete { path: node.path.clone() };
        self.ask(session, delete, &[WireError::NO_NODE]).await.map_err(after_asking)?;
        self.claims.forget(claim.id);
        Ok(())
    }

    /// Watches the one just ahead and the own node, in one write, unless they are watched already. Whoever vanished before
    /// that is missing from the answer, so nothing is missed; and that somebody vanished says nothing but "look again".
    pub(super) async fn wait_in_queue(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        let Some(Entry {
            node: Some(node), bell, session: owner, lost: None, own, place: Some(place), ..
        }) = self.claims.get(claim.id)
        else {
            return Ok(Wake::Recheck);
        };
        let session = self.session().await?;
        if owner != session.id() || mark(&place.nearest) != busy.mark {
            return Ok(Wake::Recheck);
        }
        let watch = |path: String| Request::Read { path, watch: true };
        let mut requests = Vec::new();
        for (at, (nearest, _)) in place
            .nearest
            .into_iter()
            .zip(&place.watches)
            .enumerate()
            .filter(|(_, (_, watch))| !watch.stands())
        {
            requests.push((watch(nearest), Some(self.claims.watcher_ahead(claim.id, at))));
        }
        if !own.stands() {
            requests.push((watch(node.path), Some(self.claims.watcher(claim.id))));
        }
        let asked: Vec<_> = requests.iter().map(|(request, _)| request.clone()).collect();
        for (answer, request) in session.ask_all(requests).await.iter().zip(asked) {
            match answer {
                Ok(_) => {}
                Err(wire_error) if *wire_error == WireError::NO_NODE => return Ok(Wake::Recheck),
                Err(wire_error) => return Err(failure::failed(wire_error, &request, &self.options)),
            }
        }
        bell.notified().await;
        Ok(Wake::Recheck)
    }

    /// Removes the claim's node: by its path, or, if that was never heard, every node that carries its id. No other
    /// claim's node does, so this may be sent at any time and any number of times. It also removes what a session left
    /// that is over: the server may not have got to it yet.
    pub(super) async fn release_in_queue(&self, claim: &Claim) -> Result<Released> {
        let session = self.session().await?;
        let entry = self.claims.get(claim.id);
        let paths = match &entry {
            Some(Entry { node: Some(node), .. }) => vec![node.path.clone()],
            _ => {
                let parent = self.path(&names::path_of(&claim.name));
                let prefix = node::prefix_of(claim.id);
                let children = self.newest_children(&session, &parent).await?;
                let ours = children.iter().filter(|child| child.starts_with(&prefix));
                ours.map(|child| format!("{parent}/{child}")).collect()
            }
        };
        let mut released = Released::NotHeld;
        for path in paths {
            if self.ask(&session, Request::Delete { path }, &[WireError::NO_NODE]).await?.is_some() {
                released = Released::Freed;
            }
        }
        if let Some(Entry { node: Some(node), is_held: true, watch, .. }) = &entry
            && let (Released::Freed, Mode::Exclusive | Mode::Write, Some(number)) =
                (released, claim.mode, node.number())
        {
            self.quiet.given_back(node.parent(), number, watch.as_ref());
        }
        self.claims.forget(claim.id);
        Ok(released)
    }
}

/// Whom it waits for, in a word.
fn mark(nearest: &[String]) -> Mark {
    Mark(nearest.join("\n").into_bytes())
}

/// Something of the claim may be on the server already, whatever this request did.
fn after_asking(error: Error) -> Error {
    error.with_effect(Effect::Unknown)
}
