//! The public API, recorded.

use std::time::Duration;

use latchwork::engine::Mode;
use latchwork::{Client, Lock, LockName, Result, Wait};

use super::event::{GaveUp, What};
use super::heading::Heading;
use super::recorded_election::RecordedElection;
use super::recorded_guard::RecordedGuard;
use super::recorded_multi::RecordedMultiLock;
use super::recorder::Recorder;
use super::tag::Tag;

/// A client whose locks are recorded.
#[derive(Clone)]
pub struct RecordedClient {
    recorder: Recorder,
    tag: Tag,
    client: Client,
}

impl RecordedClient {
    pub(super) fn new(recorder: Recorder, tag: Tag, client: Client) -> Self {
        Self { recorder, tag, client }
    }

    /// Describes a lock, as [`Client::lock`] does.
    ///
    /// # Panics
    /// If the name is not valid.
    pub fn lock(&self, name: &str) -> RecordedLock {
        self.shared_lock(name, Mode::Exclusive)
    }

    /// Describes a shared lock, as [`Client::rw_lock`] and [`Client::semaphore`] do.
    ///
    /// # Panics
    /// If the name is not valid.
    pub fn shared_lock(&self, name: &str, mode: Mode) -> RecordedLock {
        RecordedLock { heading: self.heading(name, mode), lock: describe(&self.client, name, mode) }
    }

    /// Describes a shared lock for a single attempt. Its claim is signed, so that a
    /// [`Witness`](super::Witness) recognizes it in the queue.
    ///
    /// # Panics
    /// If the name is not valid.
    pub fn signed_lock(&self, name: &str, mode: Mode) -> RecordedLock {
        let heading = self.heading(name, mode).signed();
        let client = self.client.clone().with_note(&heading.signature());
        RecordedLock { heading, lock: describe(&client, name, mode) }
    }

    /// Describes several locks that are taken together, as [`Client::multi_lock`] does.
    ///
    /// # Panics
    /// If a name is not valid.
    pub fn multi_lock(&self, names: &[&str]) -> RecordedMultiLock {
        let headings = names.iter().map(|name| self.heading(name, Mode::Exclusive)).collect();
        RecordedMultiLock::new(headings, self.client.multi_lock(names))
    }

    /// Describes an election, as [`Client::election`] does.
    ///
    /// # Panics
    /// If the name is not valid.
    pub fn election(&self, name: &str) -> RecordedElection {
        RecordedElection::new(self.heading(name, Mode::Exclusive), self.client.election(name))
    }

    fn heading(&self, name: &str, mode: Mode) -> Heading {
        Heading::new(self.recorder.clone(), self.tag, LockName::new(name).expect("a valid name"), mode)
    }

    /// The tag under which the client is recorded.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The wrapped client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

fn describe(client: &Client, name: &str, mode: Mode) -> Lock {
    match mode {
        Mode::Read => client.rw_lock(name).read(),
        Mode::Write => client.rw_lock(name).write(),
        Mode::Permit { of } => client.semaphore(name, of),
        _ => client.lock(name),
    }
}

/// A lock whose attempts are recorded.
#[derive(Clone)]
pub struct RecordedLock {
    heading: Heading,
    lock: Lock,
}

impl RecordedLock {
    /// As [`Lock::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.heading.ttl = ttl;
        self.with(|lock| lock.ttl(ttl))
    }

    /// As [`Lock::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Sets any other option of [`Lock`].
    pub fn with(mut self, change: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = change(self.lock);
        self
    }

    /// As [`Lock::acquire`].
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// A dropped call is recorded as cancelled: the attempt never held the lock, whatever the engine did.
    pub async fn acquire(&self) -> Result<RecordedGuard> {
        let attempt = self.heading.begin();
        match self.lock.acquire().await {
            Ok(guard) => Ok(attempt.acquired(guard)),
            Err(error) => {
                attempt.failed(&error);
                Err(error)
            }
        }
    }

    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`RecordedLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<RecordedGuard>> {
        let attempt = self.heading.begin();
        match self.lock.try_acquire().await {
            Ok(Some(guard)) => Ok(Some(attempt.acquired(guard))),
            Ok(None) => {
                attempt.answered(What::GaveUp(GaveUp::Busy));
                Ok(None)
            }
            Err(error) => {
                attempt.failed(&error);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork::engine::Engine;
    use latchwork::engines::Memory;
    use latchwork::engines::memory::Verb;
    use latchwork::{Effect, Loss};

    use super::*;
    use crate::drop_at_poll;

    const TTL: Duration = Duration::from_secs(10);

    fn setting() -> (Memory, Recorder, RecordedClient) {
        let memory = Memory::new();
        let recorder = Recorder::in_memory(memory.clock());
        let client = recorder.client(Client::new(memory.clone()));
        (memory, recorder, client)
    }

    fn kinds(recorder: &Recorder) -> Vec<String> {
        let first_word = |what: What| what.to_string().split(' ').next().map(str::to_owned);
        recorder.history().events().iter().filter_map(|event| first_word(event.what)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_recorded_from_its_invocation_to_its_release() {
        let (_, recorder, client) = setting();
        client.lock("a").acquire().await.unwrap().release().await.unwrap();
        assert_eq!(kinds(&recorder), ["invoked", "acquired", "release", "released"]);
        drop(client.lock("a").acquire().await.unwrap());
        assert_eq!(kinds(&recorder)[4..], ["invoked", "acquired", "release"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_acquire_is_recorded_as_cancelled() {
        let (_, recorder, client) = setting();
        let other = recorder.client(client.client().clone());
        let _guard = client.lock("a").acquire().await.unwrap();
        assert!(drop_at_poll::after_polls(other.lock("a").acquire(), 1).await.is_none());
        assert_eq!(kinds(&recorder)[2..], ["invoked", "cancelled"]);
        let history = recorder.history();
        assert_eq!((history.attempts().len(), history.holds().len()), (2, 1));
        assert!(history.attempts()[1].ghost_until.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn every_outcome_has_its_name() {
        let (memory, recorder, client) = setting();
        let other = recorder.client(Client::new(memory.clone()));
        let guard = client.lock("a").acquire().await.unwrap();
        assert!(other.lock("a").try_acquire().await.unwrap().is_none());
        other.lock("a").wait(TTL).acquire().await.unwrap_err();
        memory.fail_next(Verb::Claim, Effect::None);
        other.lock("a").try_acquire().await.unwrap_err();
        memory.fail_always(Verb::Claim, Some(Effect::Unknown));
        memory.fail_always(Verb::Release, Some(Effect::None));
        other.lock("a").wait(TTL).acquire().await.unwrap_err();
        let outcomes: Vec<_> =
            kinds(&recorder).into_iter().skip(2).filter(|kind| kind != "invoked").collect();
        assert_eq!(outcomes, ["gave-up", "gave-up", "failed", "unknown"]);
        drop(guard);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_is_recorded_when_it_is_reported_and_only_for_a_listener() {
        let (memory, recorder, client) = setting();
        let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
        memory.lose(&LockName::new("a").unwrap());
        assert_eq!(guard.lost().await, Loss::Removed);
        assert_eq!(kinds(&recorder)[2..], ["listening", "told"]);
        let guard = client.lock("b").ttl(TTL).acquire().await.unwrap();
        memory.lose(&LockName::new("b").unwrap());
        tokio::time::sleep(TTL).await;
        assert!(!guard.is_certain());
        guard.release().await.unwrap_err();
        assert_eq!(kinds(&recorder)[6..], ["found-lost", "release", "release-failed"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_lease_is_recorded_before_the_release() {
        for listens in [true, false] {
            let (_, recorder, client) = setting();
            let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
            tokio::select! {
                _ = guard.lost(), if listens => panic!("it is renewed"),
                () = tokio::time::sleep(TTL * 3) => {}
            }
            guard.release().await.unwrap();
            let noted: &[&str] = if listens { &["listening", "deaf"] } else { &["extended"] };
            assert_eq!(kinds(&recorder)[2..], [noted, &["release", "released"]].concat());
            let history = recorder.history();
            assert_eq!(Some(history.holds()[0].end), history.holds()[0].release, "certain until the release");
            assert!(history.holds()[0].unheard.is_none());
        }
    }
}
