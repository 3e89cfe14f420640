//! Which process this is. Guards and clients look at it all the time: in a fork they hold nothing.
//!
//! To ask the system each time took a third of what it costs to pass a lock on inside a process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of this process; zero in a fork that has not asked for its own yet.
static MARK: OnceLock<Option<&AtomicU32>> = OnceLock::new();

/// The number of this process.
pub(crate) fn id() -> u32 {
    let Some(mark) = MARK.get() else {
        // Made before it is handed over: a fork in the middle of it must not wait for who is not there.
        let _ = MARK.set(forkmark::cleared_in_forks());
        return std::process::id();
    };
    match mark.map(|mark| (mark, mark.load(Ordering::Relaxed))) {
        None => std::process::id(),
        Some((mark, 0)) => {
            let id = std::process::id();
            mark.store(id, Ordering::Relaxed);
            id
        }
        Some((_, id)) => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_number_that_the_system_gave() {
        for _ in 0..3 {
            assert_eq!(id(), std::process::id());
        }
    }
}
