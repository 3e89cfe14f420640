//! The types that the core and an engine exchange.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Foreign;
use crate::clock::{self, Moment};
use crate::{Error, ErrorKind, LockName, Loss, OwnerId, Result, Token};

/// 128 random bits that name one claim. Drawn before the first request is sent, so that every verb can be
/// repeated after a lost reply, and `release` can be sent without knowing whether the claim arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId([u8; 16]);

impl ClaimId {
    /// A new id from the operating system's random generator.
    pub fn random() -> Self {
        Self(clock::random_bytes())
    }

    /// A new id from a clock that may be simulated.
    pub(crate) fn drawn(clock: clock::Clock) -> Self {
        Self(clock.random_bytes())
    }

    /// The id with these bytes, as stored on a server.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}

/// One client's request for one lock, from its first byte to its release.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub name: LockName,
    /// The id of this claim.
    pub id: ClaimId,
    /// Which claims may hold beside this one.
    pub mode: Mode,
    /// The identity of its holder across restarts. The claim takes over from an exclusive holder with the
    /// same owner.
    pub owner: Option<OwnerId>,
    /// The time for which a holder that died may block others.
    pub ttl: Duration,
    /// The time for which a place in the queue outlives the last `claim`. Zero: the claim only tries, and
    /// never queues.
    pub wait_lease: Duration,
    /// The event that ends the claim if it is not released.
    pub lifetime: Lifetime,
    /// Whether its grant must have a token, on an engine that gives tokens on request only.
    pub fenced: bool,
    /// A description of its holder, for people.
    pub note: Note,
    /// The value that its holder publishes, on an engine that has leaders
    /// ([`SharedCells::with_leaders`](super::SharedCells::with_leaders)).
    pub tells: Option<Arc<[u8]>>,
}

impl Claim {
    /// Whether this claim takes over from a holder with this id, mode and owner.
    pub fn takes_over(&self, id: ClaimId, mode: Mode, owner: Option<&OwnerId>) -> bool {
        self.owner.is_some()
            && self.owner.as_ref() == owner
            && id != self.id
            && (mode, self.mode) == (Mode::Exclusive, Mode::Exclusive)
    }

    /// The end of a lease that was granted or renewed at `from` at the latest, if it is not released.
    pub(crate) fn lease_over(&self, from: Moment) -> Moment {
        match self.lifetime {
            Lifetime::Lease => from.after(self.ttl),
            Lifetime::Session => Moment::NEVER,
        }
    }

    /// An exclusive claim with a new id that only tries.
    pub fn new(name: LockName, ttl: Duration) -> Self {
        Self {
            name,
            id: ClaimId::random(),
            mode: Mode::Exclusive,
            owner: None,
            ttl,
            wait_lease: Duration::ZERO,
            lifetime: Lifetime::Lease,
            fenced: false,
            note: Note::default(),
            tells: None,
        }
    }
}

/// Which claims may hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder, alone.
    Exclusive,
    /// Many readers beside each other.
    Read,
    /// One writer, without readers.
    Write,
    /// At most `of` holders.
    Permit {
        /// The number of permits.
        of: u32,
    },
}

impl Mode {
    /// The number of permits, if this is [`Mode::Permit`].
    pub fn permits(self) -> Option<u32> {
        match self {
            Self::Permit { of } => Some(of),
            _ => None,
        }
    }

    /// Checks that all claims name the same number of permits. An engine with permits passes the modes of the
    /// holders and waiters, and refuses a claim with another number.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], naming both numbers.
    pub fn same_number(self, others: impl IntoIterator<Item = Self>) -> Result<()> {
        let Self::Permit { of } = self else { return Ok(()) };
        let differs = |other| match other {
            Self::Permit { of: named } if named != of => Some(named),
            _ => None,
        };
        match others.into_iter().find_map(differs) {
            None => Ok(()),
            Some(named) => {
                let message = format!(
                    "{of} permits were asked for, but others use it with {named}; name the same number"
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

/// The event that ends a claim that is not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifetime {
    /// The lease: `ttl` after the last renewal, or the end of the session if the engine notices that earlier.
    Lease,
    /// Only the end of the session, as with `flock`; no renewal is needed. See
    /// [`Guarantees::outlives_wrapper`](crate::Guarantees::outlives_wrapper).
    Session,
}

/// The result of `claim`.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The lock is held by this claim.
    Granted(Grant),
    /// Another claim holds the lock.
    Busy(Busy),
}

/// A grant of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Greater than the tokens of all earlier grants of this name; `None` if the engine has no tokens.
    pub token: Option<u64>,
    /// The end of the lease.
    pub valid: Valid,
}

/// The end of a lease, before the core subtracts the allowance for clock drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid {
    /// Counted from before the request was sent (C4).
    For(Duration),
    /// A moment on [`Engine::clock`](super::Engine::clock), for an engine that judges expiry on the same
    /// clock, or that took the send time of the last acknowledged request of its session itself. The core
    /// subtracts no drift.
    /// [`Moment::NEVER`]: the kernel notices the end of the session, and no renewal is needed.
    Until(Moment),
}

/// The state of a lock that another claim holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Busy {
    /// The holder, if the engine knows it.
    pub holder: Option<ClaimState>,
    /// The number of claims ahead of this one, including the holders; `None` if it did not queue, or the
    /// engine does not count them.
    pub position: Option<u32>,
    /// The newest token of this name, if the engine knows it. A pushed grant at or below it is outdated.
    pub floor: Option<u64>,
    /// The core repeats `claim` after this time at the latest. The repeated claim is also the heartbeat of
    /// the waiter.
    pub again_in: Duration,
    /// Data for `wait`.
    pub mark: Mark,
    /// The reason for which the server grants no locks until `again_in` has passed, if it restarted and may
    /// have forgotten locks.
    pub quarantine: Option<Arc<str>>,
}

impl Busy {
    /// A busy lock whose holder is not known.
    pub fn new(again_in: Duration) -> Self {
        Self { holder: None, position: None, floor: None, again_in, mark: Mark::default(), quarantine: None }
    }
}

/// Opaque bytes that an engine passes from `claim` to `wait`: the claim just ahead, the connection that it
/// was read on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub Vec<u8>);

/// The result of `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something changed: claim again.
    Recheck,
    /// The server handed the lock over.
    Granted(Grant),
}

/// The result of `renew`, for one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Still held.
    Kept(Valid),
    /// No longer held, for this reason.
    Lost(Loss),
}

/// The result of `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The claim held the lock or waited for it, and was removed.
    Freed,
    /// The claim was not found.
    NotHeld,
    /// Only the record of a revocation of this claim was found, and was removed. An engine that keeps this
    /// record for the claim's next renewal may return `NotHeld`.
    Revoked,
}

/// Selects locks by name.
#[derive(Clone, Debug)]
pub enum Filter {
    /// One lock.
    Name(LockName),
    /// Every lock whose name has this prefix. The empty prefix selects all locks.
    Prefix(String),
}

impl Filter {
    /// Whether a lock of this name is selected.
    pub fn matches(&self, name: &LockName) -> bool {
        match self {
            Self::Name(wanted) => wanted == name,
            Self::Prefix(prefix) => name.as_str().starts_with(prefix.as_str()),
        }
    }
}

/// One lock, as the engine stores it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockState {
    /// The lock.
    pub name: LockName,
    /// The holders.
    pub holders: Vec<ClaimState>,
    /// The waiters, in queue order.
    pub waiters: Vec<ClaimState>,
}

impl LockState {
    /// A lock without holders and waiters.
    pub fn new(name: LockName) -> Self {
        Self { name, holders: Vec::new(), waiters: Vec::new() }
    }
}

/// One holder or waiter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimState {
    /// The id of the claim.
    pub id: ClaimId,
    /// The token of the engine, for a holder on an engine with tokens.
    pub token: Option<u64>,
    /// Its owner, if it has one.
    pub owner: Option<OwnerId>,
    /// A description of its holder, for people.
    pub note: Note,
    /// The time of the grant, or for a waiter of its arrival, on the server's wall clock.
    pub since: Option<SystemTime>,
    /// The rest of the lease; `None` for a waiter, a claim bound to its session, or a foreign holder without
    /// an expiry.
    pub expires_in: Option<Duration>,
    /// The type and length of a holder that another program wrote.
    pub foreign: Option<Box<Foreign>>,
    /// The number of permits of the lock, if this claim is for one of them.
    pub permits: Option<u32>,
}

impl ClaimState {
    /// The fencing token of its first guard. Each pass to another task of its client raises the token by one.
    pub fn first_token(&self) -> Option<Token> {
        self.token.map(|token| Token::new(token, 0))
    }

    /// A claim of which only the id is known.
    pub fn new(id: ClaimId) -> Self {
        Self {
            id,
            token: None,
            owner: None,
            note: Note::default(),
            since: None,
            expires_in: None,
            foreign: None,
            permits: None,
        }
    }
}

/// How a lock is taken away from its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revoke {
    /// The holder's next renewal is refused, and the lock is free when the lease ends. The holder learns of
    /// it in time. A holder written by another program is left alone.
    AtLeaseEnd,
    /// The lock is free at once, and the holder learns of it at its next renewal. Refused for a holder
    /// written by another program.
    Now,
    /// As [`Revoke::Now`], also for a holder written by another program.
    NowAlsoForeign,
}

impl Revoke {
    /// Whether the lock is free at once.
    pub const fn is_now(self) -> bool {
        matches!(self, Self::Now | Self::NowAlsoForeign)
    }

    /// The label in JSON and in events.
    pub const fn label(self) -> &'static str {
        if self.is_now() { "now" } else { "at_lease_end" }
    }
}

/// The result of `revoke`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// At least one of the named holders still held the lock.
    Done,
    /// The holders have changed since the lock was inspected.
    NotHeld,
}

/// A description of a client, for people: at most 256 bytes, without control characters.
#[derive(Clone, PartialEq, Eq)]
pub struct Note(Arc<str>);

impl Note {
    /// The longest note, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Accepts any text: control characters become spaces, and a text that is too long is cut.
    pub fn new(text: &str) -> Self {
        let mut clean = String::with_capacity(text.len().min(Self::MAX_BYTES));
        for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            if clean.len() + c.len_utf8() > Self::MAX_BYTES {
                break;
            }
            clean.push(c);
        }
        Self(clean.into())
    }

    /// A description of this process, followed by `text`: `pid 4242 on web1: text`.
    pub fn of_this_process(text: &str) -> Self {
        let host = nix::unistd::gethostname().unwrap_or_default();
        let (pid, host) = (std::process::id(), host.to_string_lossy());
        Self::new(
            if text.is_empty() {
                format!("pid {pid} on {host}")
            } else {
                format!("pid {pid} on {host}: {text}")
            }
            .as_str(),
        )
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Note {
    fn default() -> Self {
        Self("".into())
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
