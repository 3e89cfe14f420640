//! Leader election, for code without async.

use std::time::Duration;

use super::Leadership;
use super::runtime_thread::RuntimeThread;
use crate::forward_options::forward_options;
use crate::{Leader, Result, Wait};

/// As [`latchwork::Election`](crate::Election), with calls that block.
#[derive(Clone, Debug)]
#[must_use = "there is no candidate before `campaign`"]
pub struct Election {
    inner: crate::Election,
    thread: RuntimeThread,
}

impl Election {
    pub(super) fn new(inner: crate::Election, thread: RuntimeThread) -> Self {
        Self { inner, thread }
    }

    forward_options! {
        ttl: Duration;
        wait: impl Into<Wait>;
        stop_margin: Duration;
        on_waiting: impl Fn(&crate::Waiting) + Send + Sync + 'static;
    }

    /// Waits until this candidate leads, and publishes `value`, as
    /// [`Election::campaign`](crate::Election::campaign).
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let election = latchwork::blocking::connect("memory:")?.election("main");
    /// let leading = election.campaign("10.0.0.1:80")?;
    /// assert_eq!(election.leader()?.expect("there is one").term, leading.term());
    /// leading.resign()?;
    /// assert_eq!(election.leader()?, None);
    /// # Ok(()) }
    /// ```
    pub fn campaign(&self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        let leading = self.thread.block_on(self.inner.campaign(value))?;
        Ok(Leadership::new(leading, self.thread.clone()))
    }

    /// The present leader, as [`Election::leader`](crate::Election::leader).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn leader(&self) -> Result<Option<Leader>> {
        self.thread.block_on(self.inner.leader())
    }

    /// Follows the leaders, as [`Election::observe`](crate::Election::observe).
    pub fn observe(&self) -> Observer {
        Observer { inner: self.inner.observe(), thread: self.thread.clone() }
    }
}

/// As [`latchwork::Observer`](crate::Observer), with calls that block.
#[derive(Debug)]
pub struct Observer {
    inner: crate::Observer,
    thread: RuntimeThread,
}

impl Observer {
    /// The latest leader, and then each that follows, as [`Observer::next`](crate::Observer::next). `None` if
    /// `within` passed without another leader; [`Duration::MAX`] waits for ever. The next call misses no
    /// present leader.
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let election = latchwork::blocking::connect("memory:")?.election("main");
    /// let mut leaders = election.observe();
    /// assert!(leaders.next(Duration::from_millis(1)).is_none(), "there is no leader");
    /// let leading = election.campaign("one")?;
    /// let Some(leader) = leaders.next(Duration::from_secs(5)) else { panic!("there is a leader") };
    /// assert_eq!(leader?.term, leading.term());
    /// # Ok(()) }
    /// ```
    pub fn next(&mut self, within: Duration) -> Option<Result<Leader>> {
        self.thread.block_on(async { tokio::time::timeout(within, self.inner.next()).await.ok() })
    }
}
