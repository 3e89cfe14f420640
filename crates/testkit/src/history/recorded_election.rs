//! An election, recorded.

use std::time::Duration;

use latchwork::{Election, Leader, Observer, Result};

use super::event::What;
use super::heading::Heading;
use super::recorded_guard::RecordedGuard;

/// An election whose campaigns and observers are recorded. A campaign is recorded as an attempt at the lock
/// of the election's name, and a term as its token.
#[derive(Clone)]
pub struct RecordedElection {
    heading: Heading,
    election: Election,
}

impl RecordedElection {
    pub(super) fn new(heading: Heading, election: Election) -> Self {
        Self { heading, election }
    }

    /// As [`Election::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.heading.ttl = ttl;
        self.with(|election| election.ttl(ttl))
    }

    /// Sets any other option of [`Election`].
    pub fn with(mut self, change: impl FnOnce(Election) -> Election) -> Self {
        self.election = change(self.election);
        self
    }

    /// As [`Election::campaign`]. The returned guard is the leadership.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    pub async fn campaign(&self, value: &str) -> Result<RecordedGuard> {
        let attempt = self.heading.begin();
        match self.election.campaign(value).await {
            Ok(leading) => Ok(attempt.acquired(leading.into_guard())),
            Err(error) => {
                attempt.failed(&error);
                Err(error)
            }
        }
    }

    /// As [`Election::leader`].
    ///
    /// # Errors
    /// As [`Election::leader`], which is not recorded.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let asked = self.heading.recorder.clock().now();
        let leader = self.election.leader().await?;
        self.heading.note(0, What::Named { term: leader.as_ref().map(|leader| leader.term), asked });
        Ok(leader)
    }

    /// As [`Election::observe`].
    pub fn observe(&self) -> RecordedObserver {
        let (heading, attempt) = (self.heading.clone(), self.heading.recorder.next_attempt());
        heading.note(attempt, What::Watching);
        RecordedObserver { heading, attempt, observer: self.election.observe() }
    }
}

/// An observer whose observations are recorded.
pub struct RecordedObserver {
    heading: Heading,
    attempt: u64,
    observer: Observer,
}

impl RecordedObserver {
    /// As [`Observer::next`].
    ///
    /// # Errors
    /// As [`Observer::next`].
    pub async fn next(&mut self) -> Result<Leader> {
        let leader = self.observer.next().await?;
        self.heading.note(self.attempt, What::Saw { term: leader.term });
        Ok(leader)
    }
}

impl Drop for RecordedObserver {
    fn drop(&mut self) {
        self.heading.note(self.attempt, What::LookedAway);
    }
}
