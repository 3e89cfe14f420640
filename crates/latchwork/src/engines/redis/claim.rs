//! Claims: a grant, or a place in the queue.

use std::time::Duration;

use super::connection::Connection;
use super::keys::Keys;
use super::options::Scheme;
use super::script_replies::{self, ClaimReply, KeyState, protocol_error};
use super::scripts::Script;
use super::{Redis, millis, record};
use crate::clock::Clock;
use crate::engine::{Busy, Claim, Grant, Lifetime, Mode, Valid, Verdict};
use crate::engines::quarantine::quarantined;
use crate::engines::waiter_table::Notification;
use crate::net::per_runtime::Closable as _;
use crate::{Error, ErrorKind, Result};

/// The first pause of a waiter that polls because the holder announces no release. Each is twice as long as
/// the last.
pub(super) const FIRST_POLL: Duration = Duration::from_millis(25);
pub(super) const MAX_POLL: Duration = Duration::from_millis(250);
/// The scripts rely on this limit: keys of the queue expire a minute after the last claim.
const MAX_WAIT_LEASE: Duration = Duration::from_secs(15);

impl Redis {
    pub(super) async fn claim_or_enqueue(&self, claim: &Claim) -> Result<Verdict> {
        self.check_support(claim)?;
        let keys = Keys::of(&self.options().prefix, &claim.name)?;
        let waits = !claim.wait_lease.is_zero();
        let connection = match waits {
            true => self.session.listening_connection().await?,
            false => self.session.connection().await?,
        };
        if Script::for_claim(claim.mode).is_shared() {
            Box::pin(connection.load_shared_scripts(self.options())).await?;
        }
        // Before the quarantine: a waiter that is not in the table would be told to look again at once, for
        // ever.
        let is_heartbeat = waits && self.session.waiters.expect(claim.id);
        if let Some(left) = self.session.quarantine() {
            return Ok(quarantined(&format!("redis at {}", self.options().shown_as), left));
        }
        let verdict = match is_heartbeat && self.session.waiters.waiting() > 1 {
            // Boxed, or the future of every claim would be as large as this rare one.
            true => Box::pin(self.heartbeat(&connection, claim, keys)).await,
            false => self.send_claim(&connection, claim, keys).await,
        };
        match verdict {
            // The connection may have been retired before this claim was in the table, and so without a
            // notification for it. It claims again, over a connection that is subscribed.
            Ok(Verdict::Busy(_)) if waits && connection.is_closed() => {
                self.session.waiters.deliver(claim.id, Notification::Recheck);
            }
            Ok(Verdict::Busy(_)) => {}
            _ if waits => self.session.waiters.forget(claim.id),
            _ => {}
        }
        verdict
    }

    fn check_support(&self, claim: &Claim) -> Result<()> {
        if claim.lifetime != Lifetime::Lease {
            return Err(Error::new(ErrorKind::Unsupported, "redis supports only claims with a lease"));
        }
        if claim.mode != Mode::Exclusive && self.options().scheme != Scheme::Set {
            let message = "scheme=setnx supports only exclusive locks; scheme=set uses the same keys and supports all kinds";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    pub(super) async fn send_claim(
        &self,
        connection: &Connection,
        claim: &Claim,
        keys: Keys<'_>,
    ) -> Result<Verdict> {
        let (options, script) = (self.options(), Script::for_claim(claim.mode));
        let mut command = self.script_call(connection, script, keys);
        command
            .arg(&record::encode_id(claim.id)[..])
            .arg(&record::Tail(claim, self.session.channel_id()))
            .arg(&millis(claim.ttl))
            .arg(&millis(wait_lease(claim)));
        match script_replies::claim(connection.call(script, command, options).await?)? {
            ClaimReply::Granted(token) => {
                Ok(Verdict::Granted(Grant { token: Some(token), valid: Valid::For(claim.ttl) }))
            }
            ClaimReply::Busy(state) => {
                if state.place == Some(0) && (state.has_silent_holder() || state.is_free()) {
                    Box::pin(self.track_holder(connection, claim, keys, &state)).await;
                }
                Ok(Verdict::Busy(self.busy(claim, &state)))
            }
            ClaimReply::Full => {
                let most = options.max_waiters;
                let message =
                    format!("{most} clients wait for this lock already; max-waiters= in the URL allows more");
                Err(Error::new(ErrorKind::Unreachable, message))
            }
            ClaimReply::OtherPermits(number) => {
                claim.mode.same_number([Mode::Permit { of: number }])?;
                Err(protocol_error())
            }
        }
    }

    /// Lets the server notify the first waiter of changes by clients that announce nothing.
    async fn track_holder(&self, connection: &Connection, claim: &Claim, keys: Keys<'_>, state: &KeyState) {
        let waiters = &self.session.waiters;
        let holder = keys.holder();
        waiters.watch(claim.id, &holder);
        // The key may have changed between the claim and this request.
        if connection.track(&holder).await == Some(state.is_free()) {
            waiters.deliver(claim.id, Notification::Recheck);
        }
    }

    pub(super) fn busy(&self, claim: &Claim, state: &KeyState) -> Busy {
        let heartbeat_in = self.next_heartbeat(claim);
        let is_silent = state.has_silent_holder();
        let polls = self.session.waiters.count_silent_holder(claim.id, is_silent);
        // Only the first waiter has to look by itself, because a dead holder publishes nothing. The others
        // are notified.
        let again_in = match (state.place, u64::try_from(state.free_in)) {
            (Some(0), _) if is_silent => {
                (FIRST_POLL * (1 << polls.saturating_sub(1).min(8))).min(MAX_POLL).min(heartbeat_in)
            }
            (Some(0), Ok(free_in)) => heartbeat_in.min(Duration::from_millis(free_in + 1)),
            // The key is free, and more dead waiters are ahead than one call removes.
            (Some(_), _) if state.is_free() && self.options().gap.is_zero() => Duration::from_millis(1),
            _ => heartbeat_in,
        };
        let mut busy = Busy::new(again_in);
        busy.holder = state.holder();
        busy.position = state.place.map(|place| place + state.holders());
        busy.floor = record::parse_token(&state.fence);
        busy
    }

    /// The time until the next heartbeat of a claim. The claims of one client have the same ticks, so that
    /// their heartbeats are sent together.
    fn next_heartbeat(&self, claim: &Claim) -> Duration {
        let interval = wait_lease(claim) / 3;
        match self.session.waiters.waiting() {
            0 | 1 => interval,
            2.. => {
                let (now, tick) = (Clock::boottime().now().as_micros(), (interval.as_micros() as u64).max(1));
                Duration::from_micros(tick - now % tick)
            }
        }
    }
}

/// How long a place in the queue outlives its last heartbeat.
pub(super) fn wait_lease(claim: &Claim) -> Duration {
    claim.wait_lease.min(MAX_WAIT_LEASE)
}
