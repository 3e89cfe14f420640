//! Holders that were written by another program.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::{ClaimState, Revoke};
use crate::{Error, ErrorKind, Result};

/// A value, node, row or connection in the place of a claim that was not written by Latchwork. The page of
/// each engine says how it distinguishes the two. An expiry is no criterion.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Foreign {
    /// Its type, as the server names it: `string`, `list`, `node`, `row`, `connection`.
    pub kind: Cow<'static, str>,
    /// The length of its value in bytes, if it has one.
    pub length: Option<u64>,
    /// The first bytes of its value, at most [`Foreign::HEAD`].
    pub head: Vec<u8>,
    /// Whether it can be a lock. An engine never removes a value that cannot.
    pub is_lock: bool,
    /// Whether the server also removes it when the session of its holder ends.
    pub ends_with_session: bool,
}

impl Foreign {
    /// The number of bytes of a value that are shown.
    pub const HEAD: usize = 32;

    /// A holder with a value.
    pub fn new(kind: impl Into<Cow<'static, str>>, value: &[u8]) -> Self {
        let head = value[..value.len().min(Self::HEAD)].to_vec();
        Self {
            kind: kind.into(),
            length: Some(value.len() as u64),
            head,
            is_lock: true,
            ends_with_session: false,
        }
    }

    /// A holder with a name and without a value.
    pub fn named(kind: impl Into<Cow<'static, str>>, name: &str) -> Self {
        Self { length: None, ..Self::new(kind, name.as_bytes()) }
    }

    /// A value of a type that no program uses for locks.
    pub fn not_a_lock(kind: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: kind.into(), length: None, head: Vec::new(), is_lock: false, ends_with_session: false }
    }

    /// Sets whether the server removes it when the session of its holder ends.
    pub fn bound_to_session(self, ends_with_session: bool) -> Self {
        Self { ends_with_session, ..self }
    }
}

/// Omits the value, by which a reader of a log could release the lock.
impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign")
            .field("kind", &self.kind)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Shows the first bytes of the value, with all but printable ASCII escaped.
impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, head) = (self.kind.escape_debug(), self.head.escape_ascii());
        match self.length {
            None if self.head.is_empty() => write!(f, "{kind}"),
            None => write!(f, "{kind} \"{head}\""),
            Some(length) if length > self.head.len() as u64 => {
                write!(f, "{kind} of {length} bytes that begins \"{head}\"")
            }
            Some(1) => write!(f, "{kind} of 1 byte, \"{head}\""),
            Some(length) => write!(f, "{kind} of {length} bytes, \"{head}\""),
        }
    }
}

impl Revoke {
    /// Checks whether `holder` may be revoked in this way. An engine passes each holder as it is stored now,
    /// before it changes anything.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if the holder was written by another program, unless this is
    /// [`Revoke::NowAlsoForeign`] and the holder can be a lock.
    pub fn check(self, holder: &ClaimState) -> Result<()> {
        let Some(foreign) = &holder.foreign else { return Ok(()) };
        let refuse = |message| Err(Error::new(ErrorKind::Foreign, message));
        let ends = ends(foreign, holder.expires_in);
        match self {
            _ if !foreign.is_lock => refuse(format!(
                "what stands there is no lock but a {foreign}; it is never taken away; {ends}"
            )),
            Self::NowAlsoForeign => Ok(()),
            Self::AtLeaseEnd => refuse(format!(
                "its holder is not Latchwork's and cannot be told; nothing was changed; {ends}: {foreign}"
            )),
            Self::Now => refuse(format!(
                "its holder is not Latchwork's, and is taken away only if that is asked for; {ends}: {foreign}"
            )),
        }
    }
}

/// How the holder ends if it is not revoked.
fn ends(foreign: &Foreign, expires_in: Option<Duration>) -> String {
    match expires_in {
        Some(left) if !foreign.is_lock => format!("it expires in {left:.1?}"),
        None if !foreign.is_lock => "it does not expire".to_owned(),
        Some(left) => format!("its lease ends in {left:.1?}"),
        None if foreign.ends_with_session => {
            "it has no lease, so it is held until its holder gives it back or its session with the server ends"
                .to_owned()
        }
        None => "it has no lease, so it is held until its holder gives it back".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ClaimId;

    #[test]
    fn a_foreign_value_is_shown_by_its_beginning_and_harmless() {
        let shown = |value: &[u8]| Foreign::new("string", value).to_string();
        assert_eq!(shown(b"hello"), "string of 5 bytes, \"hello\"");
        assert_eq!(shown(b"x"), "string of 1 byte, \"x\"");
        assert_eq!(shown(b"\x1b[2J\"\xff\n"), r#"string of 7 bytes, "\x1b[2J\"\xff\n""#);
        assert_eq!(shown(&[b'a'; 33]), format!("string of 33 bytes that begins \"{}\"", "a".repeat(32)));
        assert!(!format!("{:?}", Foreign::new("string", b"hello")).contains("hello"));
    }

    #[test]
    fn only_what_can_be_a_lock_is_taken_and_only_if_asked_for() {
        let mut holder = ClaimState::new(ClaimId::random());
        let allowed = |holder: &ClaimState| {
            [Revoke::AtLeaseEnd, Revoke::Now, Revoke::NowAlsoForeign].map(|how| how.check(holder).is_ok())
        };
        assert_eq!(allowed(&holder), [true, true, true]);
        holder.foreign = Some(Box::new(Foreign::new("string", b"hello")));
        assert_eq!(allowed(&holder), [false, false, true]);
        let refused = Revoke::Now.check(&holder).expect_err("foreign holders are not included").to_string();
        assert!(refused.contains("no lease") && refused.contains("hello"), "{refused}");
        assert!(!refused.contains("session"), "{refused}");
        holder.foreign = Some(Box::new(Foreign::named("connection", "psql").bound_to_session(true)));
        let refused = Revoke::Now.check(&holder).expect_err("foreign holders are not included").to_string();
        assert!(
            refused.contains("gives it back or its session with the server ends: connection"),
            "{refused}"
        );
        holder.foreign = Some(Box::new(Foreign::not_a_lock("hash")));
        assert_eq!(allowed(&holder), [false, false, false]);
        let refused = Revoke::NowAlsoForeign.check(&holder).expect_err("never").to_string();
        assert!(refused.contains("a hash; it is never taken away; it does not expire"), "{refused}");
    }
}
