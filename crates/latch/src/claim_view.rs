//! One holder or waiter, as `latch` prints it.

use std::time::{Duration, SystemTime};

use latchwork::engine::ClaimState;
use latchwork::{Guarantees, clock};
use serde::Serialize;

use crate::duration::shown;
use crate::sanitize::sanitize;

/// A claim as text and as JSON. Tokens and ids are strings: they do not fit the numbers of JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClaimView {
    claim: String,
    /// The first token of the grant, as in `LATCH_TOKEN`.
    token: Option<String>,
    engine_token: Option<String>,
    owner: Option<String>,
    note: String,
    since: Option<String>,
    for_ms: Option<u64>,
    /// `None` for a waiter, and for a claim without a lease, which ends with its session.
    pub(crate) lease_left_ms: Option<u64>,
    /// The type and length of the holder, if another program wrote it.
    pub(crate) foreign: Option<ForeignView>,
    /// In place of the lease, for a holder that has none.
    #[serde(skip)]
    no_lease: &'static str,
}

/// The type and length of a value that another program wrote. The value itself is not shown: it may be all
/// that is needed to release the lock.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ForeignView {
    #[serde(rename = "type")]
    kind: String,
    length: Option<u64>,
}

impl ClaimView {
    pub(crate) fn new(claim: &ClaimState, promised: &Guarantees) -> Self {
        let since = claim.since.map(|since| since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let now = Duration::from_micros(clock::wall_micros());
        Self {
            claim: claim.id.to_string(),
            token: claim.first_token().map(|token| token.to_string()),
            engine_token: claim.token.map(|token| token.to_string()),
            owner: claim.owner.as_ref().map(|owner| owner.as_str().to_owned()),
            note: claim.note.as_str().to_owned(),
            since: claim.since.map(|since| humantime::format_rfc3339_micros(since).to_string()),
            for_ms: since.map(|since| millis(now.saturating_sub(since))),
            lease_left_ms: claim.expires_in.map(millis),
            foreign: claim.foreign.as_ref().map(|found| {
                let (kind, length) = (found.kind.clone().into_owned(), found.length);
                ForeignView { kind, length }
            }),
            no_lease: no_lease(claim, promised),
        }
    }

    /// The note of the claim, or its id, sanitized.
    pub(crate) fn who(&self) -> String {
        if self.note.is_empty() { format!("claim {}", self.claim) } else { sanitize(&self.note) }
    }

    pub(crate) fn how_long(&self) -> String {
        self.for_ms.map_or_else(|| "-".to_owned(), shown)
    }

    pub(crate) fn lease_left(&self) -> String {
        self.lease_left_ms.map_or_else(|| "-".to_owned(), shown)
    }

    /// The rows that describe a holder.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let lease = self.lease_left_ms.map_or_else(|| self.no_lease.to_owned(), shown);
        let since = self.since.as_ref().map(|since| format!("{since} ({})", self.how_long()));
        let rows = [
            ("held by", Some(self.who())),
            ("owner", self.owner.as_deref().map(sanitize)),
            ("token", self.token.clone()),
            ("since", since),
            ("lease left", Some(lease)),
        ];
        rows.into_iter().filter_map(|(label, value)| Some((label, value?))).collect()
    }
}

/// Describes the event that ends a claim without a lease.
fn no_lease(claim: &ClaimState, promised: &Guarantees) -> &'static str {
    match () {
        () if promised.outlives_wrapper => "none: held until its last process ends",
        () if promised.lives_with_session => "none: held until its holder's session with the server ends",
        () if claim.foreign.is_some() => "none: held until its holder releases it",
        () => "unknown",
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use latchwork::engine::{ClaimId, Registry};

    use super::*;

    #[test]
    fn the_view_of_a_claim_without_a_lease_names_the_event_that_ends_it() {
        for promised in Registry::builtin().guarantees() {
            let text = no_lease(&ClaimState::new(ClaimId::random()), &promised);
            let expected = match promised.engine {
                "sqlite" => "none: held until its last process ends",
                "zookeeper" | "zookeeper-single" | "postgres-session" | "mariadb-session" => {
                    "none: held until its holder's session with the server ends"
                }
                _ => "unknown",
            };
            assert_eq!(text, expected, "{}", promised.engine);
        }
    }
}
