//! The core owns time: waiting, renewing, deadlines, cancelling, and the queue inside this process.
//!
//! It is written once for every engine and knows none of them. Three values carry the duties, and dropping one always
//! does the right thing: a [`Ticket`] is the right to drive a name's remote claim, a [`Tenure`] is a held claim, and a
//! [`Finish`](finish::Finish) opens the name again once its release was answered.

mod active;
mod alarm;
mod background;
pub(crate) mod defaults;
mod drive;
mod duty;
mod finish;
mod grip;
mod handle;
mod hold;
mod janitor;
mod keeper;
mod lease;
mod limits;
mod local;
mod machine;
mod pending_release;
mod request;
mod shield;
mod sweeper;
#[cfg_attr(not(feature = "telemetry"), path = "silence.rs")]
mod telemetry;
mod tenure;
mod terms;
mod ticket;
mod turn;
mod watched;

pub(crate) use drive::{Holder, Outcome, acquire};
pub(crate) use grip::Grip;
pub(crate) use handle::ClientHandle;
pub(crate) use hold::Hold;
pub(crate) use lease::LeaseTerms;
pub(crate) use machine::Patience;
pub(crate) use tenure::Tenure;
pub(crate) use terms::Terms;
pub(crate) use ticket::Ticket;
pub(crate) use watched::OnWaiting;

use std::future::Future;
use std::sync::Arc;

use self::background::Background;
use self::keeper::Keeper;
use self::limits::Limits;
use self::local::Local;
use self::request::Request;
use self::telemetry::Telemetry;
use crate::clock::{Clock, Moment};
use crate::engine::{Boxed, SharedEngine};
use crate::{Effect, Error, ErrorKind, Guarantees, Result};

/// What one client's guards, waiters and keeper share.
pub(crate) struct Core {
    pub(crate) engine: SharedEngine,
    /// What the engine promised when the client was made.
    pub(crate) promised: Guarantees,
    pub(crate) clock: Clock,
    /// The process it belongs to.
    pub(crate) pid: u32,
    pub(crate) telemetry: Telemetry,
    local: Local,
    keeper: Keeper,
    background: Background,
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
    pub(crate) fn answer<T: 'static>(self: &Arc<Self>, work: Boxed<Result<T>>, now: Moment) -> Request<T> {
        Request::new(self, work, now)
    }

    fn limits(&self) -> &Limits {
        &self.background.limits
    }

    pub(crate) fn new(engine: SharedEngine) -> Arc<Self> {
        let clock = engine.clock();
        let (background, promised) = (Background::new(clock), engine.guarantees());
        let telemetry = Telemetry::new(promised.engine);
        promised.warnings.iter().for_each(|warning| telemetry.warned(warning));
        Arc::new(Self {
            keeper: Keeper::new(&engine, clock),
            local: Local::default(),
            telemetry,
            promised,
            engine,
            clock,
            pid: forkmark::process_id(),
            background,
        })
    }

    /// Whether this process is a fork of the one it belongs to.
    pub(crate) fn is_a_copy(&self) -> bool {
        self.pid != forkmark::process_id()
    }

    /// A fork must not speak through its parent's connections.
    pub(crate) fn refuse_a_copy(&self) -> Result<()> {
        if self.is_a_copy() {
            let message = "this process is a fork of the one that connected; connect again after the fork";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Waits until everything that goes on in the background is done, up to [`defaults::CLOSE_LIMIT`] after the last lock that
    /// is kept for a while may be given back.
    pub(crate) async fn flush(&self) -> Result<()> {
        let limit = self.background.kept_until().max(self.clock.now()).after(defaults::CLOSE_LIMIT);
        if self.until(limit, self.background.finished()).await.is_some() {
            return Ok(());
        }
        let (left, limit) = (self.background.unfinished(), defaults::CLOSE_LIMIT);
        let message =
            format!("{left} releases were not answered within {limit:?}; their leases end by themselves");
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_a_copy() {
            // The session is the parent's: whatever ends it here would end it there.
            std::mem::forget(self.engine.clone());
        }
    }
}

fn no_answer_in_time() -> Error {
    let message =
        "the engine did not answer within the wait limit; is it, or a process that uses it, stopped?";
    Error::new(ErrorKind::TimedOut, message).with_effect(Effect::Unknown)
}

fn no_answer() -> Error {
    let limit = defaults::REQUEST_LIMIT;
    let message =
        format!("the engine did not answer within {limit:?}; is it, or a process that uses it, stopped?");
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}
