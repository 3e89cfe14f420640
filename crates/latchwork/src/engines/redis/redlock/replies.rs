//! Holders and errors in the replies of the masters.

use super::super::script_replies::{self, ClaimReply};
use super::super::wire::Reply;
use super::tally::{ClaimVote, Tally};
use crate::engine::{ClaimId, ClaimState};
use crate::{Effect, Error, ErrorKind, Result};

/// The holders that masters name, and their errors.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) holders: Vec<ClaimState>,
    pub(super) failures: Vec<(ErrorKind, String)>,
    /// The number of failures that are about TLS.
    pub(super) tls_failures: usize,
    /// The numbers of masters that certainly did nothing.
    pub(super) without_effect: Vec<usize>,
}

impl Replies {
    /// Notes a master's reply to a claim. Returns its vote.
    pub(super) fn claim(&mut self, master: usize, answer: Result<Reply>) -> ClaimVote {
        match answer.and_then(script_replies::claim) {
            Ok(ClaimReply::Granted(token)) => ClaimVote::Ours(token),
            Ok(ClaimReply::Busy(state)) => {
                self.holders.extend(state.holder());
                ClaimVote::Busy
            }
            Ok(ClaimReply::Full | ClaimReply::OtherPermits(_)) => ClaimVote::Silent,
            Err(error) => {
                self.failed(&error);
                if error.effect() == Effect::None {
                    self.without_effect.push(master);
                }
                ClaimVote::Silent
            }
        }
    }

    pub(super) fn failed(&mut self, error: &Error) {
        self.failures.push((error.kind(), error.message().to_owned()));
        self.tls_failures += usize::from(error.is_about_tls());
    }

    /// The error of a request that too few masters answered.
    pub(super) fn no_majority(&self, answered: usize, masters: usize) -> Error {
        let quorum = Tally::quorum(masters);
        let mut why: Vec<&str> = self.failures.iter().map(|(_, message)| message.as_str()).collect();
        let kind = self.kind(!why.is_empty() && answered + why.len() >= masters);
        if kind == ErrorKind::Invalid && why.iter().all(|message| *message == why[0]) {
            // Such as a reserved name. The message names no master, because nothing was sent.
            return Error::new(kind, why[0].to_owned());
        }
        if why.is_empty() {
            why.push("the others did not answer in time");
        }
        let why = why.join("; ");
        let message =
            format!("redlock: {answered} of {masters} masters answered, {quorum} are needed: {why}");
        let error = Error::new(kind, message);
        // Without these masters no majority can be reached before the certificates or the URL change.
        if self.tls_failures > masters - quorum { error.with_tls_failure() } else { error }
    }

    /// The kind of an error that consists of all failures. A request that every master refuses for good is
    /// not worth a retry, and not an outage; `is_complete` says that no master is still silent.
    fn kind(&self, is_complete: bool) -> ErrorKind {
        let is = |wanted: ErrorKind| move |(kind, _): &(ErrorKind, String)| *kind == wanted;
        let all = |wanted: ErrorKind| is_complete && self.failures.iter().all(is(wanted));
        match () {
            () if self.failures.iter().any(is(ErrorKind::Denied)) => ErrorKind::Denied,
            () if all(ErrorKind::Invalid) => ErrorKind::Invalid,
            () if all(ErrorKind::Unsupported) => ErrorKind::Unsupported,
            () => ErrorKind::Unreachable,
        }
    }

    /// The holder that most masters name, if at least `least` do. A master that joined the grant late may
    /// have a greater token than those that granted, so the state is the one that most of these masters
    /// report.
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

    fn replies(holders: &[(u8, u64)]) -> Replies {
        let state = |(id, token): &(u8, u64)| {
            let mut state = ClaimState::new(ClaimId::from_bytes([*id; 16]));
            state.token = Some(*token);
            state
        };
        Replies { holders: holders.iter().map(state).collect(), ..Replies::default() }
    }

    #[test]
    fn a_holder_that_enough_masters_name_is_described_as_most_of_them_do() {
        let named = replies(&[(7, 3), (9, 8), (7, 2), (7, 2)]).named_by(3).expect("three are enough");
        assert_eq!((named.id, named.token), (ClaimId::from_bytes([7; 16]), Some(2)));
        assert!(replies(&[(7, 2), (9, 8), (7, 2)]).named_by(3).is_none());
    }
}
