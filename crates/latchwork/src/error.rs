//! The error type: what the caller should do, and whether the server may have acted.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::LockName;
use crate::clock::Moment;

/// The result of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kinds of errors, by what the caller should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is invalid: a name, a ttl, a URL. Change the call.
    Invalid,
    /// The engine does not support this, or is not compiled in. Choose another engine or feature.
    Unsupported,
    /// Another claim holds the lock, and the caller did not want to wait.
    Busy,
    /// The wait limit passed before the lock was free.
    TimedOut,
    /// The engine cannot be reached or used now. Retry later.
    Unreachable,
    /// The engine denies access to this user.
    Denied,
    /// The stored data is damaged. An operator must repair it.
    Corrupt,
    /// The lock is no longer held.
    Lost,
    /// The holder of the lock was written by another program, and the call does not include such holders. See
    /// [`Revoke`](crate::engine::Revoke).
    Foreign,
}

/// Whether the server may have acted despite the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing was changed.
    None,
    /// The server may have acted, or may act later: the reply is missing. [`Error::may_be_held_until`] limits
    /// the time for which this matters.
    Unknown,
}

/// An error of this crate: a kind, an effect, and a sentence that names the subject, the limit and the option
/// to change.
///
/// `{}` and `{:?}` print the sentence, so a `main` that returns the error prints it as well. `{:#?}` prints
/// every field.
pub struct Error(Box<ErrorDetails>);

struct ErrorDetails {
    kind: ErrorKind,
    effect: Effect,
    message: Cow<'static, str>,
    subject: Option<(Subject, LockName)>,
    held_until: Option<(Moment, Duration)>,
    sql: Option<String>,
    is_about_tls: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kind of thing that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Lock,
    Cell,
    Election,
}

impl Subject {
    const fn noun(self) -> &'static str {
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
            is_about_tls: false,
            source: None,
        }))
    }

    /// Sets the effect.
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Sets the cause.
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Names the lock, unless the error names something already.
    pub(crate) fn about(mut self, lock: &LockName) -> Self {
        self.0.subject.get_or_insert_with(|| (Subject::Lock, lock.clone()));
        self
    }

    /// Names another subject: the errors of an election's lock name the election.
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

    /// Marks the error of a connection on which TLS failed.
    #[cfg(feature = "_net")]
    pub(crate) fn with_tls_failure(mut self) -> Self {
        self.0.is_about_tls = true;
        self
    }

    /// Sets the time until which the lock may be held.
    pub(crate) fn may_be_held(mut self, until: Moment, now: Moment) -> Self {
        self.0.held_until = Some((until, until.since(now)));
        self
    }

    /// A copy for another claim of the same request, without the source.
    pub fn again(&self) -> Self {
        let ErrorDetails { kind, effect, message, subject, held_until, sql, is_about_tls, source: _ } =
            &*self.0;
        Self(Box::new(ErrorDetails {
            kind: *kind,
            effect: *effect,
            message: message.clone(),
            subject: subject.clone(),
            held_until: *held_until,
            sql: sql.clone(),
            is_about_tls: *is_about_tls,
            source: None,
        }))
    }

    /// The kind: what the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the server may have acted.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Whether the connection failed because of TLS: one side rejects the other's certificate, or only one
    /// side speaks TLS. Another attempt fails in the same way until the URL, a certificate or the server's
    /// settings change.
    pub fn is_about_tls(&self) -> bool {
        self.0.is_about_tls
    }

    /// The time until which the failed call may hold the lock, on the engine's clock, unless it is released
    /// before. The client retries the release in the background. Until it succeeds, later calls for the same
    /// lock report this time as well.
    ///
    /// The client counts from the moment at which it gives the request up, at most 10 s after it was sent. It
    /// adds 7 s, the time for which the claim may wait in a queue, and the ttl. That is an upper bound if the
    /// server carries out no request later than 7 s after it was given up. PostgreSQL, MariaDB and MySQL
    /// guarantee this: a statement that waits for the lock of another transaction ends before that.
    ///
    /// It is not a bound if the server, or a proxy in front of it, is suspended for longer: a stopped
    /// process, a suspended virtual machine, a network that delays the request. The request can then be
    /// carried out later, and the lock is held for at most one ttl from that moment. A repeated release ends
    /// it sooner.
    pub fn may_be_held_until(&self) -> Option<Moment> {
        self.0.held_until.map(|(until, _)| until)
    }

    /// The sentence without the subject and the effect.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The lock that the error is about, if any. An election is the lock of its name.
    pub fn lock(&self) -> Option<&LockName> {
        self.0.subject.as_ref().filter(|(subject, _)| *subject != Subject::Cell).map(|(_, name)| name)
    }

    /// The cell that the error is about, if any.
    pub fn cell(&self) -> Option<&LockName> {
        self.0.subject.as_ref().filter(|(subject, _)| *subject == Subject::Cell).map(|(_, name)| name)
    }

    /// The SQL statements by which an administrator of the database enables this user to lock: they create
    /// the tables and grant access to them. The message ends with the same text.
    pub fn sql(&self) -> Option<&str> {
        self.0.sql.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((subject, name)) = &self.0.subject {
            write!(f, "{} {name:?}: ", subject.noun())?;
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
    /// Prints the sentence, because a `main` that returns the error prints it in this way. `{:#?}` prints
    /// every field.
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
            .field("is_about_tls", &self.0.is_about_tls)
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
