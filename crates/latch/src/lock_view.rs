//! One lock, as `latch` shows it.

use latchwork::engine::{ClaimState, Filter, LockState};
use latchwork::{Client, Guarantees, LockName};
use serde::Serialize;

use crate::claim_view::ClaimView;
use crate::failure::Failure;
use crate::sanitize::as_one_word;

/// Who holds a lock, and who waits in which order.
#[derive(Debug, Serialize)]
pub(crate) struct LockView {
    pub(crate) name: String,
    pub(crate) held: bool,
    pub(crate) holders: Vec<ClaimView>,
    /// `None`: the engine cannot tell.
    pub(crate) waiters: Option<Vec<ClaimView>>,
    /// How many may hold it at once, if its holders have permits.
    #[serde(skip)]
    permits: Option<u32>,
}

impl LockView {
    pub(crate) fn new(state: &LockState, promised: &Guarantees) -> Self {
        let views = |claims: &[ClaimState]| -> Vec<_> {
            claims.iter().map(|claim| ClaimView::new(claim, promised)).collect()
        };
        Self {
            name: state.name.as_str().to_owned(),
            held: !state.holders.is_empty(),
            holders: views(&state.holders),
            waiters: promised.lists_waiters.then(|| views(&state.waiters)),
            permits: state.holders.first().and_then(|holder| holder.permits),
        }
    }

    /// The name, safe to show.
    pub(crate) fn title(&self) -> String {
        as_one_word(&self.name)
    }

    /// Whether it is held, and how many of its permits are.
    pub(crate) fn state(&self) -> String {
        match (self.permits, self.held) {
            (Some(of), _) => format!("{} of {of} permits held", self.holders.len()),
            (None, true) => "held".to_owned(),
            (None, false) => "free".to_owned(),
        }
    }

    /// The holders in few words.
    pub(crate) fn who(&self) -> String {
        match &self.holders[..] {
            [] => "-".to_owned(),
            [one] => one.who(),
            [first, others @ ..] => format!("{} and {} more", first.who(), others.len()),
        }
    }
}

/// The lock as the engine sees it now; a name that nobody uses is a free lock.
pub(crate) async fn look(client: &Client, name: &LockName) -> Result<LockState, Failure> {
    let found = client.inspect(&Filter::Name(name.clone())).await?.into_iter().next();
    Ok(found.unwrap_or_else(|| LockState::new(name.clone())))
}

#[cfg(test)]
mod tests {
    use latchwork::engine::Registry;

    use super::*;

    #[test]
    fn who_waits_is_unknown_where_an_engine_cannot_see_it_and_not_nobody() {
        let cannot = [
            "memcached",
            "mariadb-insert",
            "mariadb-session",
            "postgres-insert",
            "redis-getset",
            "redlock",
            "zookeeper-single",
        ];
        for promised in Registry::builtin().guarantees() {
            let view = LockView::new(&LockState::new(LockName::new("x").unwrap()), &promised);
            let is_unknown = serde_json::to_value(&view).unwrap()["waiters"].is_null();
            assert_eq!(is_unknown, cannot.contains(&promised.engine), "{}", promised.engine);
        }
    }
}
