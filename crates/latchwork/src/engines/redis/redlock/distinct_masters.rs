//! Refuses one server under two addresses: counted twice, it would be a majority of one.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Result};

/// The run ids of the masters, by their addresses.
#[derive(Default)]
pub(in super::super) struct DistinctMasters {
    run_ids: Mutex<HashMap<String, String>>,
}

impl DistinctMasters {
    /// Notes that the server at `place` has this run id now.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if a server that is known by another address has it.
    pub(in super::super) fn admit(&self, place: &str, run_id: &str) -> Result<()> {
        let mut run_ids = lock_ignoring_poison(&self.run_ids);
        if let Some((twin, _)) = run_ids.iter().find(|(other, known)| *other != place && *known == run_id) {
            let message =
                format!("redlock: {place} and {twin} are one server, which cannot be counted twice");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        run_ids.insert(place.to_owned(), run_id.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_two_addresses_is_noticed_and_one_that_restarted_is_not() {
        let roster = DistinctMasters::default();
        roster.admit("h1:6379", "a").unwrap();
        roster.admit("h2:6379", "b").unwrap();
        roster.admit("h1:6379", "c").unwrap();
        roster.admit("h1:6379", "c").unwrap();
        let error = roster.admit("localhost:6379", "c").unwrap_err();
        assert!(error.to_string().contains("h1:6379"), "{error}");
    }
}
