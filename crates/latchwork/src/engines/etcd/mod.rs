//! `etcd://`: a cluster that agrees on one order of all changes.
//!
//! A claim is a key under a lease, below the lock's name; whose key is oldest holds the lock. Its revision is its place in
//! the queue and its token. Whoever waits watches the key just before its own, so that a release wakes one client; keys
//! and order are those of etcd's own lock, so that `etcdctl lock` and Go programs stand in the same queue.

mod cells;
mod close_observer;
mod connection;
mod failure;
mod fence;
mod inspect;
mod keys;
mod leaders;
mod lease;
mod names;
mod options;
mod queue;
mod renew;
mod session;
mod waiting;
mod watches;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use self::connection::Connection;
use self::keys::Contender;
use self::leaders::Leaders;
use self::options::Options;
use self::session::{Owing, Place, Session};
use self::waiting::Waiting;
use self::wire::{Compare, KeyValue, Operation, PutRequest, RangeResponse, TXN, TxnRequest, TxnResponse};
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Engine, EngineUrl, Filter, Foreign, Grant, Lifetime, LockState, Mark,
    Mode, Note, Released, Renewal, Revoke, Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::{Faults, Guarantees, Loss, Promise, Result};

/// Before these, leases and watches have known faults.
const SOUND: [[u32; 3]; 2] = [[3, 4, 42], [3, 5, 28]];

/// The etcd engine: one client's session with one cluster.
#[derive(Clone)]
pub struct Etcd {
    session: Arc<Session>,
}

/// How the lock stood when a claim was looked at.
enum Look {
    Mine(i64),
    /// Behind whom it waits (it is worth looking again when one of them has left), and who holds.
    Behind(Vec<Contender>, Option<Contender>),
    /// Its key is not there.
    Gone,
}

impl Etcd {
    /// Connects to the cluster that `url` names. See `docs/engines/etcd.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an option it does not know,
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if no member can be reached (or trusted) or the cluster
    /// has no leader, [`ErrorKind::Denied`](crate::ErrorKind::Denied) if it refuses the user.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let session = Arc::new(Session::new(Options::of(url)?));
        session.connection().await?;
        Ok(Self { session })
    }

    pub(crate) fn promises() -> Guarantees {
        promises("")
    }

    fn options(&self) -> &Options {
        &self.session.options
    }

    /// Takes a place in the queue: one change, which also says who was there before.
    async fn enrol(&self, connection: &Connection, claim: &Claim, place: &Place) -> Result<Look> {
        let mut compare = vec![Compare::created_in(place.key.clone(), 0)];
        // Of two who name different numbers of permits, whoever comes second leaves nothing that a third could run into.
        compare.extend(self.other_permits(claim).map(Compare::none_in));
        let request = self.enrolment(claim, place, compare);
        match self.put(connection, place, request).await? {
            Some(answer) => self.enrolled(connection, claim, place, answer).await,
            None => Ok(Look::Gone),
        }
    }

    /// Where those stand who want one of another number of permits.
    fn other_permits(&self, claim: &Claim) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let others = match claim.mode {
            Mode::Permit { of } => Some(keys::other_permits(&self.options().namespace, &claim.name, of)),
            _ => None,
        };
        others.into_iter().flatten()
    }

    /// Refuses a claim that was not put because others want one of another number of permits.
    fn same_number(&self, claim: &Claim, others: impl Iterator<Item = RangeResponse>) -> Result<()> {
        let others = others.flat_map(|page| page.kvs);
        let modes = others.map(|kv| self.contender(&claim.name, kv).map(|other| other.mode));
        let Some(modes) = modes.collect::<Option<Vec<_>>>() else { return Err(failure::no_permit()) };
        claim.mode.same_number(modes)
    }

    /// The same for a claim that only tries: it leaves nothing if anybody is there.
    async fn try_alone(&self, connection: &Connection, claim: &Claim, place: &Place) -> Result<Option<Look>> {
        let anybody = keys::contenders(&self.options().namespace, &claim.name);
        let request = self.enrolment(claim, place, vec![Compare::none_in(anybody)]);
        let Some(answer) = self.put(connection, place, request).await? else { return Ok(Some(Look::Gone)) };
        if answer.succeeded {
            return self.enrolled(connection, claim, place, answer).await.map(Some);
        }
        let mut ranges = answer.ranges();
        let (own, oldest) = (ranges.next().unwrap_or_default(), ranges.next().unwrap_or_default());
        if !own.kvs.is_empty() {
            return Ok(None); // Asked before, and the answer was lost.
        }
        let holder = oldest.kvs.into_iter().find_map(|kv| self.contender(&claim.name, kv));
        let newest = ranges.next().unwrap_or_default();
        self.same_number(claim, ranges)?;
        let before = self.before(connection, &claim.name, claim.mode, i64::MAX, newest).await?;
        // If nobody is in its way (readers are not in a reader's, nor are locks with longer names), it may queue.
        Ok((!before.is_empty()).then_some(Look::Behind(before, holder)))
    }

    fn enrolment(&self, claim: &Claim, place: &Place, compare: Vec<Compare>) -> TxnRequest {
        let namespace = &self.options().namespace;
        let put = PutRequest {
            key: place.key.clone(),
            value: keys::value(claim),
            lease: place.lease.id,
            ..PutRequest::default()
        };
        let newest = || queue::read(queue::newest(namespace, &claim.name, 0, queue::first_page(claim.mode)));
        // What a free lock does not need is left out: who holds is asked for by those who wait.
        let success = vec![Operation::Put(put).into(), newest()];
        let oldest = queue::read(queue::oldest(namespace, &claim.name, 1));
        let mut failure = vec![queue::own(&place.key), oldest, newest()];
        failure.extend(self.other_permits(claim).map(queue::any));
        TxnRequest { compare, success, failure }
    }

    /// What the queue looked like just after.
    async fn enrolled(
        &self,
        connection: &Connection,
        claim: &Claim,
        place: &Place,
        answer: TxnResponse,
    ) -> Result<Look> {
        let (was_new, changed) =
            (answer.succeeded, answer.header.as_ref().map_or(0, |header| header.revision));
        let mut ranges = answer.ranges();
        let first = ranges.next().unwrap_or_default();
        let own = first.kvs.first();
        let is_ours = |kv: &KeyValue| {
            self.contender(&claim.name, kv.clone()).is_some_and(|contender| contender.id == claim.id)
        };
        if !was_new && own.is_some_and(|kv| !is_ours(kv)) {
            return Err(failure::protocol_error(&connection.place)); // Nobody else may stand there.
        }
        let own = own.map(|kv| kv.create_revision);
        let Some(revision) = (if was_new { Some(changed) } else { own }) else {
            self.same_number(claim, ranges.skip(2))?;
            return Ok(Look::Gone);
        };
        self.session.note(claim.id, |place| place.revision = Some(revision));
        if !was_new {
            // Others came since: who is just before it has to be asked for.
            return self.look(connection, claim, place, revision).await;
        }
        let before = self.before(connection, &claim.name, claim.mode, revision, first).await?;
        Ok(Look::of(revision, before, None))
    }

    /// Looks how the lock stands. Changes nothing, so that it need not go through the cluster's log.
    async fn look(
        &self,
        connection: &Connection,
        claim: &Claim,
        place: &Place,
        revision: i64,
    ) -> Result<Look> {
        let namespace = &self.options().namespace;
        let success = vec![
            queue::own(&place.key),
            queue::read(queue::oldest(namespace, &claim.name, 1)),
            queue::read(queue::newest(namespace, &claim.name, revision - 1, queue::first_page(claim.mode))),
        ];
        let request = TxnRequest { success, ..TxnRequest::default() };
        // Early enough to renew its lease through another member if this one does not answer.
        let answer = connection.ask_within(place.lease.answer_limit(), self.options(), TXN, request).await;
        let answer: TxnResponse = answer.map_err(|status| connection.failed(&status))?;
        let mut ranges = answer.ranges();
        let [own, oldest, newest] = std::array::from_fn(|_| ranges.next().unwrap_or_default());
        // Its own key in the same look: a place that was lost is not taken for the lock because nobody is before it.
        if own.kvs.first().is_none_or(|kv| kv.create_revision != revision) {
            self.session.note(claim.id, |place| place.revision = None);
            return Ok(Look::Gone);
        }
        let holder = oldest.kvs.into_iter().find_map(|kv| self.contender(&claim.name, kv));
        let before = self.before(connection, &claim.name, claim.mode, revision, newest).await?;
        Ok(Look::of(revision, before, holder))
    }

    async fn ask(&self, connection: &Connection, claim: &Claim, place: &Place) -> Result<Look> {
        if let Some(revision) = place.revision {
            return self.look(connection, claim, place, revision).await;
        }
        if !claim.wait_lease.is_zero() {
            return self.enrol(connection, claim, place).await;
        }
        if let Some(look) = self.try_alone(connection, claim, place).await? {
            return Ok(look);
        }
        self.enrol(connection, claim, place).await
    }

    /// Removes all traces of a try.
    async fn leave(&self, connection: &Connection, claim: &Claim, place: &Place) -> Result<()> {
        let has_key = self.session.known(claim.id).is_some_and(|place| place.revision.is_some());
        if has_key || !place.puts.is_none() {
            self.take_out(connection, place).await?;
        }
        self.session.forget(claim.id);
        Ok(())
    }

    /// Deletes the keys of claims whose release was not answered. The core repeats a release only until the
    /// claim's lease would be over. Here the lease is kept alive for as long as the client holds or waits for
    /// any lock. A caller does not wait while another task already does this.
    async fn pay(&self) {
        let (Ok(_alone), Ok(connection)) = (self.session.paying.try_lock(), self.session.connection().await)
        else {
            return;
        };
        for (claim, place) in self.session.owed() {
            // What fails stays owed, and so does the rest: a server that is silent would be waited for once for each.
            if self.take_out(&connection, &place).await.is_err() {
                return;
            }
            self.session.forget(claim);
        }
    }

    fn busy(&self, claim: &Claim, place: &Place, before: &[Contender], holder: Option<Contender>) -> Busy {
        // The repeated claim keeps the lease alive.
        let mut busy = Busy::new(claim.ttl.min(Duration::from_secs(30)) / 3);
        busy.holder = holder.as_ref().or(before.last()).map(state_of);
        let keys: Vec<_> =
            [&place.key].into_iter().chain(before.iter().map(|one| &one.key)).cloned().collect();
        busy.mark = Mark(keys.join(&0));
        busy
    }
}

impl Look {
    fn of(revision: i64, before: Vec<Contender>, holder: Option<Contender>) -> Self {
        if before.is_empty() { Self::Mine(revision) } else { Self::Behind(before, holder) }
    }
}

/// A holder, as far as its key tells.
fn state_of(contender: &Contender) -> ClaimState {
    let mut state = ClaimState::new(contender.id);
    state.permits = contender.mode.permits();
    state.token = u64::try_from(contender.revision).ok();
    state.note = Note::new(&contender.note);
    let value = contender.tells.as_deref().unwrap_or_default();
    state.foreign = (!contender.is_ours).then(|| Box::new(Foreign::new("key", value)));
    state
}

fn promises(version: &str) -> Guarantees {
    let (across, warnings) = match is_sound(version) {
        true => (Promise::Exclusive, Vec::new()),
        false => (Promise::FencedOnly, vec![unsound(version)]),
    };
    Guarantees {
        engine: "etcd",
        tokens: Some("create revision"),
        tokens_survive_data_loss: false,
        fair: true,
        lists_waiters: true,
        pushes: true,
        tells_losses: true,
        tells_revocations: true,
        lives_with_session: false,
        read_write: true,
        permits: true,
        cells: true,
        watchers_told: "at once",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_secs(1),
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: None,
        dead_holder: "the ttl (2 s at least) and up to 1 s more; after a change of leader the ttl anew",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::Exclusive,
            failover: across,
            partition: across,
            clock_step: Promise::Exclusive,
            data_deleted: Promise::FencedOnly,
        },
        beware: "before 3.4.42 and 3.5.28 leases have known faults: failover and network cuts are fenced only there",
        warnings,
    }
}

/// Whether no fault of leases or watches is known in this version. Nothing is known of no version.
fn is_sound(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let version_is: [u32; 3] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
    let same_line = SOUND.iter().find(|sound| sound[..2] == version_is[..2]);
    version.is_empty() || same_line.map_or(version_is > SOUND[1], |sound| version_is >= *sound)
}

fn unsound(version: &str) -> String {
    format!(
        "etcd {version} has known faults of leases and watches (a lease revoked by a former leader, lost events); \
         3.4.42, 3.5.28 and later do not"
    )
}

impl Engine for Etcd {
    fn guarantees(&self) -> Guarantees {
        promises(&self.session.version())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// The same session: every runtime has a connection of its own.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.lifetime != Lifetime::Lease {
            return Err(failure::unsupported("etcd: only claims with a lease"));
        }
        if self.session.owes() {
            Box::pin(self.pay()).await;
        }
        let connection = self.session.connection().await?;
        loop {
            let place = self.session.place(&connection, claim).await?;
            let failed = |error| self.session.failed(claim.id, error);
            match self.ask(&connection, claim, &place).await.map_err(failed)? {
                Look::Mine(revision) => {
                    self.session.note(claim.id, |place| place.waiting = None);
                    let valid = Valid::Until(place.lease.deadline());
                    return Ok(Verdict::Granted(Grant { token: u64::try_from(revision).ok(), valid }));
                }
                Look::Behind(before, holder) => {
                    if claim.wait_lease.is_zero() {
                        self.leave(&connection, claim, &place).await.map_err(failed)?;
                    }
                    return Ok(Verdict::Busy(self.busy(claim, &place, &before, holder)));
                }
                // Its lease ran out while it waited, or before it came: it queues again.
                Look::Gone => {}
            }
        }
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        // Its own, and those before it.
        let keys: Vec<_> = busy.mark.0.split(|byte| *byte == 0).collect();
        let Some(place) = self.session.known(claim.id) else { return Ok(Wake::Recheck) };
        let waiting = match place.waiting {
            Some(waiting) if waiting.is_for(&keys) => waiting,
            former => {
                let connection = self.session.connection().await?;
                let waiting = Arc::new(Waiting::new(&connection, &keys, former.as_deref()));
                self.session.note(claim.id, |place| place.waiting = Some(waiting.clone()));
                waiting
            }
        };
        waiting.until_news().await;
        Ok(Wake::Recheck)
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.renew_all(claims).await
    }

    async fn lost_hints(&self) -> Vec<ClaimId> {
        self.session.loss_hints.take().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        // No more news of it: that it goes is our own doing.
        self.session.note(claim.id, |place| (place.waiting, place.held) = (None, None));
        let Some(place) = self.session.known(claim.id) else { return Ok(Released::NotHeld) };
        let owing = Owing::new(&self.session, claim.id);
        let connection = self.session.connection().await?;
        let was_there = self.take_out(&connection, &place).await?;
        owing.paid();
        Ok(match was_there {
            true => Released::Freed,
            false if self.why_gone(&connection, &place).await == Loss::Revoked => Released::Revoked,
            false => Released::NotHeld,
        })
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inspect_all(filter).await
    }

    async fn revoke(&self, state: &LockState, how: Revoke) -> Result<Revoked> {
        self.revoke_holder(state, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()).with_leaders(Leaders(self.clone())))
    }
}
