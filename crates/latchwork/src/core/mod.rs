//! The core owns time: waiting, renewing, deadlines, cancelling, and the queue inside this process.
//!
//! It is written once for every engine and knows none of them. Three values carry the duties, and dropping one always
//! does the right thing: a [`Ticket`](local::Ticket) is the right to drive a name's remote claim, a
//! [`Tenure`](tenure::Tenure) is a held claim, and a [`Finish`](local::Finish) opens the name again once its release
//! was answered.

mod background;
pub(crate) mod defaults;
mod drive;
mod hold;
mod janitor;
mod keeper;
mod lease;
mod local;
mod machine;
mod shield;
mod tenure;

pub(crate) use drive::{Outcome, acquire};
pub(crate) use machine::Patience;
pub(crate) use tenure::Tenure;

use std::sync::Arc;

use self::background::Background;
use self::keeper::Keeper;
use self::local::Local;
use crate::clock::Clock;
use crate::engine::{Lifetime, Mode, Note, SharedEngine};
use std::time::Duration;

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
    pub(crate) lifetime: Lifetime,
    pub(crate) note: Note,
}

impl Core {
    pub(crate) fn new(engine: SharedEngine) -> Arc<Self> {
        let clock = engine.clock();
        let background = Background::default();
        Arc::new(Self {
            keeper: Keeper::new(&engine, clock),
            local: Local::default(),
            engine,
            clock,
            background,
        })
    }
}
