//! The core owns time: waiting, renewing, deadlines, cancelling, and the queue inside this process.
//!
//! It is written once for every engine and knows none of them. Three values carry the duties, and dropping one always
//! does the right thing: a [`Ticket`] is the right to drive a name's remote claim, a [`Tenure`] is a held claim, and a
//! [`Finish`](finish::Finish) opens the name again once its release was answered.

mod background;
pub(crate) mod defaults;
mod drive;
mod finish;
mod hold;
mod janitor;
mod keeper;
mod lease;
mod local;
mod machine;
mod shield;
mod tenure;
mod ticket;

pub(crate) use drive::{Outcome, acquire};
pub(crate) use machine::Patience;
pub(crate) use tenure::Tenure;
pub(crate) use ticket::Ticket;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use self::background::Background;
use self::keeper::Keeper;
use self::local::Local;
use crate::clock::{Clock, Moment};
use crate::engine::{Lifetime, Mode, Note, SharedEngine};
use crate::{Effect, Error, ErrorKind, Result};

/// What one client's guards, waiters and keeper share.
pub(crate) struct Core {
    pub(crate) engine: SharedEngine,
    pub(crate) clock: Clock,
    local: Local,
    keeper: Keeper,
    background: Background,
}

/// What a task wants of a lock. Two tasks of one client can share a claim only if these agree.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) wait_lease: Duration,
    pub(crate) stop_margin: Option<Duration>,
    /// How long a claim may stay with this client, going from task to task. Zero: it is never passed.
    pub(crate) pass_for: Duration,
    pub(crate) lifetime: Lifetime,
    pub(crate) note: Note,
}

impl Core {
    /// Waits for `work` until `limit`: an engine may hang, and nobody should hang with it. What was begun goes on in the
    /// background if it is shielded.
    pub(crate) async fn until<T>(&self, limit: Moment, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.clock.sleep_until(limit) => None,
        }
    }

    /// Waits for the answer to a request for as long as any request may take.
    pub(crate) async fn answer<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.clock.now().after(defaults::REQUEST_LIMIT);
        self.until(limit, work).await.unwrap_or_else(|| Err(no_answer()))
    }

    pub(crate) fn new(engine: SharedEngine) -> Arc<Self> {
        let clock = engine.clock();
        let background = Background::new(clock);
        Arc::new(Self {
            keeper: Keeper::new(&engine, clock),
            local: Local::default(),
            engine,
            clock,
            background,
        })
    }
}

fn no_answer() -> Error {
    let limit = defaults::REQUEST_LIMIT;
    let message =
        format!("the engine did not answer within {limit:?}; is it, or a process that uses it, stopped?");
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}
