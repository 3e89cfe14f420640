//! The protected side: refuse what a former holder still sends.

use std::sync::Mutex;

use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Result, Token};

/// Something that only the newest holder of a lock may use: it remembers the greatest token it was shown, and refuses lower
/// ones.
///
/// To look at the token and to act are one step, as they have to be: between the two, a greater one could come.
///
/// ```
/// use latchwork::Fenced;
///
/// let store = Fenced::new(Vec::new());
/// store.with(7_u64, |rows| rows.push("by the holder"))?;
/// store.with(9_u64, |rows| rows.push("by the next"))?;
/// store.with(9_u64, |rows| rows.push("by the next, again"))?;
/// assert!(store.with(7_u64, |rows| rows.push("by one who was paused")).is_err());
/// # Ok::<(), latchwork::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Fenced<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug, Default)]
struct Inner<T> {
    greatest: u64,
    thing: T,
}

impl<T> Fenced<T> {
    /// Protects `thing`. No token was shown yet.
    pub const fn new(thing: T) -> Self {
        Self::after(thing, 0)
    }

    /// The same after a restart: the greatest token must be stored with the thing itself.
    pub const fn after(thing: T, greatest: u64) -> Self {
        Self { inner: Mutex::new(Inner { greatest, thing }) }
    }

    /// Lets `work` use the thing, if nobody with a greater token did before.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if somebody did: the lock that `token` is of has gone on to another.
    pub fn with<R>(&self, token: impl Into<u64>, work: impl FnOnce(&mut T) -> R) -> Result<R> {
        let (token, mut inner) = (token.into(), lock_ignoring_poison(&self.inner));
        if token < inner.greatest {
            let message = format!("token {token} is refused: {} was here before", inner.greatest);
            return Err(Error::new(ErrorKind::Lost, message));
        }
        inner.greatest = token;
        Ok(work(&mut inner.thing))
    }

    /// The greatest token that was shown.
    pub fn greatest(&self) -> u64 {
        lock_ignoring_poison(&self.inner).greatest
    }
}

/// The same in Redis, as a script: `EVAL FENCED_SET 2 KEY KEY:fence TOKEN VALUE` sets KEY and answers 1, or answers 0 to a token
/// lower than one it has seen. The token must be [`Token::fixed_width`]: Lua's numbers take neighbours for the same.
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
    fn neighbours_beyond_what_a_double_holds_are_told_apart() {
        let fenced = Fenced::after((), (1 << 53) + 1);
        assert!(fenced.with(1_u64 << 53, |()| ()).is_err());
        assert!(fenced.with((1_u64 << 53) + 1, |()| ()).is_ok());
    }
}
