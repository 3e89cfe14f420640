//! Refuses one server under two addresses: counted twice, it could be a majority by itself.

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
    /// Notes that the server at this address has this run id now.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the server at another address has it.
    pub(in super::super) fn admit(&self, address: &str, run_id: &str) -> Result<()> {
        let mut run_ids = lock_ignoring_poison(&self.run_ids);
        if let Some((twin, _)) = run_ids.iter().find(|(other, known)| *other != address && *known == run_id) {
            let message =
                format!("redlock: {address} and {twin} are one server, which cannot be counted twice");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        run_ids.insert(address.to_owned(), run_id.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_at_two_addresses_is_noticed_and_one_that_restarted_is_not() {
        let masters = DistinctMasters::default();
        masters.admit("h1:6379", "a").unwrap();
        masters.admit("h2:6379", "b").unwrap();
        masters.admit("h1:6379", "c").unwrap();
        masters.admit("h1:6379", "c").unwrap();
        let error = masters.admit("localhost:6379", "c").unwrap_err();
        assert!(error.to_string().contains("h1:6379"), "{error}");
    }
}
