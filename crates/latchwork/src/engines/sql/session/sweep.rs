//! Forgetting tokens of names that were not used for a day. A lock may be held meanwhile: its holder knows its
//! token, and the next token is above the floor.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::sweep::{Names, sweep_if_due};
use super::line::Line;
use super::office::Office;
use super::{Connection, Server};

/// How long the question whether a sweep is due may take.
const DUE_LIMIT: Duration = Duration::from_secs(5);

/// The names in the table of tokens.
struct Tokens<S: Server> {
    database: S::Tokens,
    office: Weak<Office<S>>,
}

impl<S: Server> Names for Tokens<S> {
    type Database = S::Tokens;

    fn database(&self) -> &S::Tokens {
        &self.database
    }

    fn is_needed(&self) -> bool {
        self.office.strong_count() > 0
    }
}

impl<S: Server> Office<S> {
    /// Sweeps in the background if a sweep is due. That is asked on a connection that is there. The sweep
    /// itself opens another one, so that no lock waits for it.
    pub(super) fn sweep_if_due(self: &Arc<Self>, line: Arc<Line<S::Connection>>) {
        let tokens = Tokens { database: self.server.tokens(), office: Arc::downgrade(self) };
        let (thread, patient) = (self.thread.clone(), self.thread.clone());
        drop(thread.spawn(async move {
            let asking = line.ask(line.connection.is_sweep_due());
            let is_due = patient.in_time(DUE_LIMIT, asking).await;
            drop(line);
            if let Some(Ok(true)) = is_due {
                sweep_if_due(tokens).await;
            }
        }));
    }
}
