//! The protected resource: refuses the writes of a former holder.

use std::sync::Mutex;

use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Result, Token};

/// A resource that only the newest holder of a lock may use: it remembers the greatest token, and refuses
/// lower ones.
///
/// The comparison and the access are one step, because a greater token could arrive between the two.
///
/// ```
/// use latchwork::Fenced;
///
/// let store = Fenced::new(Vec::new());
/// store.with(7_u64, |rows| rows.push("by the holder"))?;
/// store.with(9_u64, |rows| rows.push("by the next"))?;
/// store.with(9_u64, |rows| rows.push("by the next, again"))?;
/// assert!(store.with(7_u64, |rows| rows.push("by a holder that was paused")).is_err());
/// # Ok::<(), latchwork::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Fenced<T> {
    state: Mutex<FencedState<T>>,
}

#[derive(Debug, Default)]
struct FencedState<T> {
    greatest: u64,
    resource: T,
}

impl<T> Fenced<T> {
    /// Protects a resource that no holder has used yet.
    pub const fn new(resource: T) -> Self {
        Self::after(resource, 0)
    }

    /// Protects a resource again after a restart. The greatest token must be stored with the resource itself.
    pub const fn after(resource: T, greatest: u64) -> Self {
        Self { state: Mutex::new(FencedState { greatest, resource }) }
    }

    /// Runs `work` with the resource, unless it was used with a greater token before.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if it was: the lock has passed from the holder of `token` to another.
    pub fn with<R>(&self, token: impl Into<u64>, work: impl FnOnce(&mut T) -> R) -> Result<R> {
        let (token, mut state) = (token.into(), lock_ignoring_poison(&self.state));
        if token < state.greatest {
            let message = format!("token {token} is refused: {} was used before", state.greatest);
            return Err(Error::new(ErrorKind::Lost, message));
        }
        state.greatest = token;
        Ok(work(&mut state.resource))
    }

    /// The greatest token that the resource was used with.
    pub fn greatest(&self) -> u64 {
        lock_ignoring_poison(&self.state).greatest
    }
}

/// A Redis script that sets a key only for the newest holder: `EVAL FENCED_SET 2 KEY KEY:fence TOKEN VALUE`
/// sets KEY and returns 1, or returns 0 for a token lower than one it was called with before. TOKEN must be
/// [`Token::fixed_width`], because Lua's numbers round neighbouring tokens to the same value.
pub const FENCED_SET: &str = include_str!("fenced_set.lua");

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        token.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racing_writers_never_go_back() {
        let fenced = Fenced::new(Vec::new());
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let fenced = &fenced;
                scope.spawn(move || {
                    for round in 0..2_000_u64 {
                        let token = round * 4 + writer;
                        let _ = fenced.with(token, |seen| seen.push(token));
                    }
                });
            }
        });
        let greatest = fenced.greatest();
        let seen = fenced.with(greatest, |seen| seen.clone()).unwrap();
        assert!(seen.is_sorted() && !seen.is_empty());
        assert_eq!(fenced.with(greatest - 1, |_| ()).unwrap_err().kind(), ErrorKind::Lost);
    }

    #[test]
    fn neighbours_beyond_what_a_double_holds_are_distinguished() {
        let fenced = Fenced::after((), (1 << 53) + 1);
        assert!(fenced.with(1_u64 << 53, |()| ()).is_err());
        assert!(fenced.with((1_u64 << 53) + 1, |()| ()).is_ok());
    }
}
