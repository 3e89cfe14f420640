//! Holders and errors in the replies of the masters.

use super::super::reply;
use super::super::wire::Value;
use super::tally::Said;
use crate::engine::{ClaimId, ClaimState};
use crate::{Effect, Error, ErrorKind, Result};

/// The holders that they name, and their errors.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) holders: Vec<ClaimState>,
    pub(super) failures: Vec<(ErrorKind, String)>,
    /// How many of the failures are about TLS.
    pub(super) tls_failures: usize,
    /// Masters that certainly did nothing.
    pub(super) inert: Vec<usize>,
}

impl Replies {
    pub(super) fn claimed(&mut self, master: usize, answer: Result<Value>) -> Said {
        match answer.and_then(reply::claimed) {
            Ok(reply::Claimed::Granted(token)) => Said::Ours(token),
            Ok(reply::Claimed::Busy(state)) => {
                self.holders.extend(state.holder());
                Said::Busy
            }
            Ok(reply::Claimed::Full | reply::Claimed::OtherNumber(_)) => Said::Silent,
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
        self.failures.push((error.kind(), error.message().to_owned()));
        self.tls_failures += usize::from(error.is_about_tls());
    }

    /// The error of a majority that was not reached. It is about TLS if, because of that, no majority can be
    /// reached before something changes.
    pub(super) fn error(&self, kind: ErrorKind, message: String, masters: usize, quorum: usize) -> Error {
        let error = Error::new(kind, message);
        if self.tls_failures > masters - quorum { error.with_tls_failure() } else { error }
    }

    /// The kind of error that all of these make together, if nobody is still to be heard of. What every
    /// master refuses for good is not worth another try, and no outage.
    pub(super) fn kind(&self, is_everybody: bool) -> ErrorKind {
        let is = |wanted: ErrorKind| move |(kind, _): &(ErrorKind, String)| *kind == wanted;
        let all = |wanted: ErrorKind| is_everybody && self.failures.iter().all(is(wanted));
        match () {
            () if self.failures.iter().any(is(ErrorKind::Denied)) => ErrorKind::Denied,
            () if all(ErrorKind::Invalid) => ErrorKind::Invalid,
            () if all(ErrorKind::Unsupported) => ErrorKind::Unsupported,
            () => ErrorKind::Unreachable,
        }
    }

    /// Whom most of the masters name, and at least so many. A master that was asked late may have counted further than those
    /// that granted, so it is described as most of them do.
    pub(super) fn named_by(mut self, least: usize) -> Option<ClaimState> {
        let named = |id: ClaimId| self.holders.iter().filter(|holder| holder.id == id).count();
        let (count, most) = self.holders.iter().map(|holder| (named(holder.id), holder.id)).max()?;
        if count < least {
            return None;
        }
        self.holders.retain(|holder| holder.id == most);
        let same = |token| self.holders.iter().filter(|holder| holder.token == token).count();
        let (_, token) = self.holders.iter().map(|holder| (same(holder.token), holder.token)).max()?;
        self.holders.into_iter().find(|holder| holder.token == token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(holders: &[(u8, u64)]) -> Replies {
        let state = |(id, token): &(u8, u64)| {
            let mut state = ClaimState::new(ClaimId::from_bytes([*id; 16]));
            state.token = Some(*token);
            state
        };
        Replies { holders: holders.iter().map(state).collect(), ..Replies::default() }
    }

    #[test]
    fn who_is_named_by_enough_is_described_as_most_do() {
        let named = heard(&[(7, 3), (9, 8), (7, 2), (7, 2)]).named_by(3).expect("three are enough");
        assert_eq!((named.id, named.token), (ClaimId::from_bytes([7; 16]), Some(2)));
        assert!(heard(&[(7, 2), (9, 8), (7, 2)]).named_by(3).is_none());
    }
}
