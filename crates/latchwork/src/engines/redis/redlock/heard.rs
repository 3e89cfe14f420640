//! What the masters said besides yes and no.

use redis::Value;

use super::super::reply;
use super::tally::Said;
use crate::engine::{ClaimId, ClaimState};
use crate::{Effect, Error, ErrorKind, Result};

/// Whom they name, and what went wrong.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) holders: Vec<ClaimState>,
    pub(super) failures: Vec<String>,
    pub(super) is_denied: bool,
    /// Who certainly did nothing.
    pub(super) inert: Vec<usize>,
}

impl Heard {
    pub(super) fn claimed(&mut self, master: usize, answer: Result<Value>) -> Said {
        match answer.and_then(reply::claimed) {
            Ok(reply::Claimed::Granted(token)) => Said::Ours(token),
            Ok(reply::Claimed::Busy(state)) => {
                self.holders.extend(state.holder());
                Said::Busy
            }
            Ok(reply::Claimed::Full) => Said::Silent,
            Err(error) => {
                self.failed(&error);
                if error.effect() == Effect::None {
                    self.inert.push(master);
                }
                Said::Silent
            }
        }
    }

    pub(super) fn failed(&mut self, error: &Error) {
        self.is_denied |= error.kind() == ErrorKind::Denied;
        self.failures.push(error.to_string());
    }

    /// Whom most of the masters name, and at least so many.
    pub(super) fn named_by(self, least: usize) -> Option<ClaimState> {
        let named = |id: ClaimId| self.holders.iter().filter(|holder| holder.id == id).count();
        let (count, most) = self.holders.iter().map(|holder| (named(holder.id), holder.id)).max()?;
        self.holders.into_iter().find(|holder| holder.id == most && count >= least)
    }
}
