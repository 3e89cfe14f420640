//! One error type: what should the caller do, and did the server perhaps act?

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::LockName;
use crate::clock::Moment;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, sorted by what the caller would do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is wrong: a name, a ttl, a URL. Change the call.
    Invalid,
    /// The engine cannot do this, or is not compiled in. Choose another engine or feature.
    Unsupported,
    /// Somebody else holds the lock, and the caller did not want to wait.
    Busy,
    /// The wait limit passed before the lock came free.
    TimedOut,
    /// The engine cannot be reached or used now. Try again later.
    Unreachable,
    /// The engine refuses this user.
    Denied,
    /// What the engine stores is damaged. An operator must look at it.
    Corrupt,
    /// The lock is no longer held.
    Lost,
    /// The lock's holder is another program's, and such holders were not asked for. See
    /// [`Revoke`](crate::engine::Revoke).
    Foreign,
}

/// Whether the server may have acted although an error came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing was changed.
    None,
    /// The server may have acted, or may still act: the reply is missing. [`Error::may_be_held_until`] says
    /// for how long that can matter.
    Unknown,
}

/// An error of this crate: a kind, an effect, and a sentence that names the thing, the limit and the knob.
///
/// `{}` and `{:?}` print that sentence, so a `main` that returns the error prints it as well. `{:#?}` prints every
/// field.
pub struct Error(Box<ErrorDetails>);

struct ErrorDetails {
    kind: ErrorKind,
    effect: Effect,
    message: Cow<'static, str>,
    subject: Option<(Subject, LockName)>,
    held_until: Option<(Moment, Duration)>,
    sql: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The thing that an error names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Lock,
    Cell,
    Election,
}

impl Subject {
    const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Cell => "cell",
            Self::Election => "election",
        }
    }
}

impl Error {
    /// An error after which nothing has changed.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorDetails {
            kind,
            effect: Effect::None,
            message: message.into(),
            subject: None,
            held_until: None,
            sql: None,
            source: None,
        }))
    }

    /// The same error, with another effect.
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// The same error, with what caused it.
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error, naming the lock it is about.
    pub(crate) fn about(mut self, lock: &LockName) -> Self {
        self.0.subject.get_or_insert_with(|| (Subject::Lock, lock.clone()));
        self
    }

    /// Names what the error is about, instead of what it named before: errors of an election's lock name the
    /// election.
    pub(crate) fn about_a(mut self, subject: Subject, name: &LockName) -> Self {
        self.0.subject = Some((subject, name.clone()));
        self
    }

    /// Adds the statements that an administrator of the database runs to remove the cause of the error.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn with_sql(mut self, sql: String) -> Self {
        self.0.sql = Some(sql);
        self
    }

    /// The same error, after which the lock may be held until `until`.
    pub(crate) fn may_be_held(mut self, until: Moment, now: Moment) -> Self {
        self.0.held_until = Some((until, until.since(now)));
        self
    }

    /// The same error for another claim of the same request, without its source.
    pub fn again(&self) -> Self {
        let ErrorDetails { kind, effect, message, subject, held_until, sql, source: _ } = &*self.0;
        Self(Box::new(ErrorDetails {
            kind: *kind,
            effect: *effect,
            message: message.clone(),
            subject: subject.clone(),
            held_until: *held_until,
            sql: sql.clone(),
            source: None,
        }))
    }

    /// What should the caller do?
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Did the server perhaps act?
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Until when the lock may be held by the call that failed, on the engine's clock, if nothing gives it
    /// back before. The client goes on trying that in the background. Until it succeeds, later calls for the
    /// same lock report this time as well.
    ///
    /// The client counts from the moment at which it gives the request up, at most 10 s after it was sent. It
    /// adds 7 s, the time for which the claim may wait in a queue, and the ttl. That is an upper bound if the
    /// server carries out no request later than 7 s after it was given up. PostgreSQL, MariaDB and MySQL
    /// guarantee this: a statement that waits for another transaction's lock ends before that.
    ///
    /// It is not a bound if the server, or a proxy on the way, stands still for longer: a stopped process, a
    /// suspended virtual machine, a network that delays the request. The request can then be carried out
    /// later, and the lock is held for at most one ttl from that moment. A release that the client repeats
    /// meanwhile ends it sooner.
    pub fn may_be_held_until(&self) -> Option<Moment> {
        self.0.held_until.map(|(until, _)| until)
    }

    /// The sentence alone: without the lock, and without what the server may have done.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The lock this is about, if it is about one. An election is the lock of its name.
    pub fn lock(&self) -> Option<&LockName> {
        self.0.subject.as_ref().filter(|(subject, _)| *subject != Subject::Cell).map(|(_, name)| name)
    }

    /// The cell this is about, if it is about one.
    pub fn cell(&self) -> Option<&LockName> {
        self.0.subject.as_ref().filter(|(subject, _)| *subject == Subject::Cell).map(|(_, name)| name)
    }

    /// The SQL statements that an administrator of the database runs so that this user can lock: they make the
    /// tables, and grant the rights to use them. The message ends with the same text.
    pub fn sql(&self) -> Option<&str> {
        self.0.sql.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((subject, name)) = &self.0.subject {
            write!(f, "{} {name:?}: ", subject.word())?;
        }
        f.write_str(&self.0.message)?;
        if self.0.effect == Effect::Unknown {
            f.write_str(" (the server may have acted)")?;
        }
        match self.0.held_until {
            None => {}
            Some((Moment::NEVER, _)) => f.write_str("; the lock may be held until this process ends")?,
            Some((_, left)) => write!(f, "; the lock may be held for up to {left:.1?}")?,
        }
        match &self.0.sql {
            None => Ok(()),
            Some(sql) => write!(f, "; let an administrator of this database run:\n{sql}"),
        }
    }
}

impl fmt::Debug for Error {
    /// The sentence, because a `main` that returns the error prints it in this way. Every field with `{:#?}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .field("message", &self.0.message)
            .field("subject", &self.0.subject)
            .field("held_until", &self.0.held_until)
            .field("sql", &self.0.sql)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeated_for_another_claim_says_everything_once() {
        let now = Moment::from_micros(1_000_000);
        let error = Error::new(ErrorKind::Unreachable, "the connection broke")
            .with_effect(Effect::Unknown)
            .about(&LockName::new("a").expect("a good name"))
            .may_be_held(now.after(Duration::from_secs(3)), now);
        let again = error.again().again();
        assert_eq!(
            again.to_string(),
            "lock \"a\": the connection broke (the server may have acted); the lock may be held for up to 3.0s"
        );
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!((again.effect(), again.lock()), (error.effect(), error.lock()));
        assert_eq!(again.may_be_held_until(), error.may_be_held_until());
    }
}
