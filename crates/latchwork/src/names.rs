//! Lock names: data, never a path, a command or SQL.

use std::fmt;
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters, compared bytewise.
///
/// Names that differ in case, accent or trailing space are different locks, and `a` and `a/b` are unrelated.
///
/// ```
/// use latchwork::LockName;
///
/// assert!(LockName::new("orders/42").is_ok());
/// assert!(LockName::new("").is_err());
/// assert!(LockName::new("two\nlines").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is empty, too long, or contains a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        check("lock name", name, Self::MAX_BYTES)?;
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What names of locks and of owners have in common.
pub(crate) fn check(what: &str, text: &str, most: usize) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    if text.is_empty() {
        return invalid(format!("the {what} is empty; give it 1 to {most} bytes"));
    }
    if text.len() > most {
        let is = text.len();
        return invalid(format!("the {what} is {is} bytes long; at most {most} are allowed"));
    }
    if let Some((at, c)) = text.char_indices().find(|(_, c)| c.is_control()) {
        let code = u32::from(c);
        return invalid(format!("the {what} has the control character U+{code:04X} at byte {at}; remove it"));
    }
    Ok(())
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_data() {
        for fine in
            ["a", "../../etc/passwd", "'; drop table lock; --", "{a}b", "naïve", "🔒", " ", &"x".repeat(512)]
        {
            assert_eq!(LockName::new(fine).unwrap().as_str(), fine);
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_the_limit_in_the_message() {
        for (bad, says) in [
            ("".to_owned(), "empty"),
            ("x".repeat(513), "513 bytes long; at most 512"),
            ("é".repeat(257), "514 bytes long"),
            ("nul\0".to_owned(), "U+0000 at byte 3"),
            ("bell\u{7}".to_owned(), "U+0007"),
            ("c1\u{9b}31m".to_owned(), "U+009B"),
            ("line\nbreak".to_owned(), "U+000A"),
        ] {
            let error = LockName::new(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
