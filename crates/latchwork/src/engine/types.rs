//! The words the core and an engine speak with each other.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Foreign;
use crate::clock::{self, Moment};
use crate::{Error, ErrorKind, LockName, Loss, OwnerId, Result, Token};

/// 128 random bits that name one claim. Drawn before the first byte is sent, so every verb can be repeated after a
/// lost reply and `release` can always be sent blind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId([u8; 16]);

impl ClaimId {
    /// Draws a new id from the operating system.
    pub fn random() -> Self {
        Self(clock::random_bytes())
    }

    /// The same from a clock that may be simulated.
    pub(crate) fn drawn(clock: clock::Clock) -> Self {
        Self(clock.random_bytes())
    }

    /// The id with these bytes, as read back from a server.
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
    /// This claim, and no other.
    pub id: ClaimId,
    /// Who may hold beside it.
    pub mode: Mode,
    /// Who it is, across restarts: takes over from an exclusive holder with the same owner.
    pub owner: Option<OwnerId>,
    /// How long a holder that vanished may block others.
    pub ttl: Duration,
    /// How long a place in the queue outlives the last `claim`. Zero: only try, never queue.
    pub wait_lease: Duration,
    /// What ends the claim when nobody releases it.
    pub lifetime: Lifetime,
    /// Whether its grant must have a token, where the engine gives one only when asked.
    pub fenced: bool,
    /// Who holds, for people to read.
    pub note: Note,
    /// What everybody may read of its holder, on an engine that has leaders
    /// ([`SharedCells::with_leaders`](super::SharedCells::with_leaders)).
    pub tells: Option<Arc<[u8]>>,
}

impl Claim {
    /// Whether this claim takes over from a holder of this id, mode and owner.
    pub fn takes_over(&self, id: ClaimId, mode: Mode, owner: Option<&OwnerId>) -> bool {
        self.owner.is_some()
            && self.owner.as_ref() == owner
            && id != self.id
            && (mode, self.mode) == (Mode::Exclusive, Mode::Exclusive)
    }

    /// When a lease that began or was renewed by `from` is over, if nothing gives it back.
    pub(crate) fn lease_over(&self, from: Moment) -> Moment {
        match self.lifetime {
            Lifetime::Lease => from.after(self.ttl),
            Lifetime::Session => Moment::NEVER,
        }
    }

    /// An exclusive claim with a fresh id that only tries.
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

/// Who may hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder, nobody beside it.
    Exclusive,
    /// Many readers beside each other.
    Read,
    /// One writer, no reader beside it.
    Write,
    /// At most `of` holders.
    Permit {
        /// How many may hold at once.
        of: u32,
    },
}

impl Mode {
    /// The number of permits, if it is for one of them.
    pub fn permits(self) -> Option<u32> {
        match self {
            Self::Permit { of } => Some(of),
            _ => None,
        }
    }

    /// Everybody must name the same number of permits. An engine that has permits refuses a claim that names another than
    /// `others`, who hold or wait.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], naming both.
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

/// What ends a claim that nobody releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifetime {
    /// The lease: `ttl` after the last renewal, or the end of the session if the engine sees that earlier.
    Lease,
    /// Only the end of the session, as with `flock`: nobody has to renew. See
    /// [`Guarantees::outlives_wrapper`](crate::Guarantees::outlives_wrapper).
    Session,
}

/// The answer to `claim`.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The lock is held by this claim.
    Granted(Grant),
    /// Somebody else has it.
    Busy(Busy),
}

/// The lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Greater than every earlier grant's of this name; `None` if the engine has none.
    pub token: Option<u64>,
    /// Until when.
    pub valid: Valid,
}

/// How long a grant is valid, before the core takes off drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid {
    /// Counted from before the request was sent (C4).
    For(Duration),
    /// An instant on [`Engine::clock`](super::Engine::clock): for an engine that judges expiry on that very clock, or
    /// that took the send time of its session's last acknowledged request itself. The core takes no drift off it.
    /// [`Moment::NEVER`]: the kernel sees the end of the session, and nothing has to be renewed.
    Until(Moment),
}

/// Somebody else holds the lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Busy {
    /// Who holds it, if the engine knows.
    pub holder: Option<ClaimState>,
    /// Claims ahead of this one, the holders included; `None` if it did not queue or the engine does not count.
    pub position: Option<u32>,
    /// The newest token of this name, if the engine knows it. A pushed grant at or below it is old news.
    pub floor: Option<u64>,
    /// The core repeats `claim` at the latest then; the repeated claim is also the waiter's heartbeat.
    pub again_in: Duration,
    /// What `wait` needs to know of this answer.
    pub mark: Mark,
    /// Why the server grants no locks before `again_in` has passed, if it restarted and may have forgotten some.
    pub quarantine: Option<Arc<str>>,
}

impl Busy {
    /// An answer that names nobody.
    pub fn new(again_in: Duration) -> Self {
        Self { holder: None, position: None, floor: None, again_in, mark: Mark::default(), quarantine: None }
    }
}

/// An engine's own bytes, carried from `claim` to `wait`: the claim just ahead, the connection it was read on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub Vec<u8>);

/// Why `wait` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something changed: claim again.
    Recheck,
    /// The server handed the lock over.
    Granted(Grant),
}

/// The answer to `renew`, for one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Still held.
    Kept(Valid),
    /// No longer held, and why.
    Lost(Loss),
}

/// The answer to `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The claim held the lock or stood in its queue, and no longer does.
    Freed,
    /// There was nothing of this claim.
    NotHeld,
    /// There was nothing of this claim but the record that an operator had taken its lock away, and no longer
    /// is. An engine that keeps this record for the claim's next renewal may answer `NotHeld`.
    Revoked,
}

/// Which locks to look at.
#[derive(Clone, Debug)]
pub enum Filter {
    /// One lock.
    Name(LockName),
    /// Every lock whose name starts so; empty means all.
    Prefix(String),
}

impl Filter {
    /// Whether a lock of this name is asked for.
    pub fn matches(&self, name: &LockName) -> bool {
        match self {
            Self::Name(wanted) => wanted == name,
            Self::Prefix(prefix) => name.as_str().starts_with(prefix.as_str()),
        }
    }
}

/// One lock, as the engine sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockState {
    /// The lock.
    pub name: LockName,
    /// Who holds it.
    pub holders: Vec<ClaimState>,
    /// Who waits, in queue order.
    pub waiters: Vec<ClaimState>,
}

impl LockState {
    /// A lock nobody holds or waits for.
    pub fn new(name: LockName) -> Self {
        Self { name, holders: Vec::new(), waiters: Vec::new() }
    }
}

/// One holder or waiter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimState {
    /// The claim.
    pub id: ClaimId,
    /// The engine's own token, if it holds and the engine has tokens.
    pub token: Option<u64>,
    /// Its owner, if it named one.
    pub owner: Option<OwnerId>,
    /// Who it is, for people.
    pub note: Note,
    /// Since when, on the server's wall clock.
    pub since: Option<SystemTime>,
    /// How long the lease still runs; `None` for a waiter, a claim bound to its session, or a foreign holder
    /// without an expiry.
    pub expires_in: Option<Duration>,
    /// The type and length of the holder, if another program wrote it.
    pub foreign: Option<Box<Foreign>>,
    /// The number of permits that the lock has, if this claim is for one of them.
    pub permits: Option<u32>,
}

impl ClaimState {
    /// The fencing token that its first guard got; each pass to another task of its client raised that by one.
    pub fn first_token(&self) -> Option<Token> {
        self.token.map(|token| Token::new(token, 0))
    }

    /// A claim of which nothing but the id is known.
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

/// How an operator takes a lock away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revoke {
    /// The holder's next renewal is refused; the lock frees when the lease ends. The holder is told in time. A
    /// holder that is another program's is not touched.
    AtLeaseEnd,
    /// The lock is free at once; the holder learns of it at its next renewal. Refused if the holder is another
    /// program's.
    Now,
    /// As [`Revoke::Now`], also if the holder is another program's.
    NowAlsoForeign,
}

impl Revoke {
    /// Whether the lock is to be free at once.
    pub const fn is_now(self) -> bool {
        matches!(self, Self::Now | Self::NowAlsoForeign)
    }

    /// The word for it in JSON and in events.
    pub const fn label(self) -> &'static str {
        if self.is_now() { "now" } else { "at_lease_end" }
    }
}

/// What `revoke` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// At least one of the named holders was still there.
    Done,
    /// The lock has moved on since it was inspected.
    NotHeld,
}

/// Who claims, for people to read: at most 256 bytes, no control characters.
#[derive(Clone, PartialEq, Eq)]
pub struct Note(Arc<str>);

impl Note {
    /// The longest note, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Makes any text fit: control characters become spaces, and what is too long is cut.
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

    /// This process: `pid 4242 on web1`, and what it says of itself.
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
