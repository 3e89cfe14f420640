//! One lock, as `latch` prints it.

use latchwork::engine::{ClaimState, Filter, LockState};
use latchwork::{Client, Guarantees, LockName};
use serde::Serialize;

use crate::claim_view::ClaimView;
use crate::failure::Failure;
use crate::sanitize::as_one_word;

/// A lock with its holders and its queue, as text and as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct LockView {
    pub(crate) name: String,
    pub(crate) held: bool,
    pub(crate) holders: Vec<ClaimView>,
    /// In queue order. `None` if the engine cannot list waiters.
    pub(crate) waiters: Option<Vec<ClaimView>>,
    /// The greatest number of holders, if they have permits.
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

    /// The name, sanitized.
    pub(crate) fn title(&self) -> String {
        as_one_word(&self.name)
    }

    /// Held or free, or the number of permits that are held.
    pub(crate) fn state(&self) -> String {
        match (self.permits, self.held) {
            (Some(of), _) => format!("{} of {of} permits held", self.holders.len()),
            (None, true) => "held".to_owned(),
            (None, false) => "free".to_owned(),
        }
    }

    /// The first holder, and the number of the others.
    pub(crate) fn who(&self) -> String {
        match &self.holders[..] {
            [] => "-".to_owned(),
            [one] => one.who(),
            [first, others @ ..] => format!("{} and {} more", first.who(), others.len()),
        }
    }
}

/// The engine's state of the lock now. An unused name is a free lock.
pub(crate) async fn inspect(client: &Client, name: &LockName) -> Result<LockState, Failure> {
    let found = client.inspect(&Filter::Name(name.clone())).await?.into_iter().next();
    Ok(found.unwrap_or_else(|| LockState::new(name.clone())))
}

#[cfg(test)]
mod tests {
    use latchwork::engine::Registry;

    use super::*;

    #[test]
    fn waiters_are_null_and_not_empty_where_an_engine_cannot_list_them() {
        let cannot_list = [
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
            assert_eq!(is_unknown, cannot_list.contains(&promised.engine), "{}", promised.engine);
        }
    }
}
