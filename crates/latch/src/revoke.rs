//! `latch revoke NAME`: takes a lock away from its holder.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use latchwork::engine::{LockState, Revoke, Revoked};
use latchwork::{Client, Guarantees, LockName};
use serde::Serialize;

use crate::claim_view::ClaimView;
use crate::cli::TargetOptions;
use crate::connection::with_client;
use crate::duration::shown;
use crate::failure::{Failure, NOTHING_TAKEN};
use crate::lock_view::{LockView, inspect};
use crate::output::{Output, Report};
use crate::sanitize::{as_one_word, sanitize};
use crate::shell_command;
use crate::target::Target;

/// Take a lock away from its holder
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
                  latch revoke nightly --reason 'host is gone'         the holder stops; free when its lease ends\n  \
                  latch revoke nightly --now --reason 'host is gone'   free at once; the holder may still be running\n\n\
                  The holder's next renewal is refused: it stops, and the lock is free when its lease ends at the latest. With \
                  --now, the next waiter gets the lock at once. Until the former holder learns of the loss both may run, and only \
                  a store that checks tokens is safe.\n\n\
                  A holder that is not Latchwork's (another program's key, node, row or connection) is not touched without \
                  --now --foreign. The refusal describes it. An entry that cannot be a lock, such as a Redis key that is not a \
                  string, is never removed.\n\n\
                  Exit codes: 0 taken away; 1 nothing was taken away, because the lock was not held or changed hands \
                  meanwhile; 64 usage, also a foreign holder without --foreign; 69 engine unreachable.")]
pub(crate) struct RevokeOptions {
    /// The lock
    pub(crate) name: String,
    /// Do not wait for the end of the holder's lease
    #[arg(long)]
    pub(crate) now: bool,
    /// Also if the holder is another program's
    #[arg(long, requires = "now")]
    pub(crate) foreign: bool,
    /// The reason, which is printed with the result for later questions; the holder does not see it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) reason: String,
}

impl RevokeOptions {
    pub(crate) fn mode(&self) -> Revoke {
        match (self.now, self.foreign) {
            (false, _) => Revoke::AtLeaseEnd,
            (true, false) => Revoke::Now,
            (true, true) => Revoke::NowAlsoForeign,
        }
    }
}

/// The result: the lock that was taken away, and its former holders.
#[derive(Debug, Serialize)]
struct Revocation {
    name: String,
    how: &'static str,
    /// `None` for `latch release`, which has no such option.
    reason: Option<String>,
    taken_from: Vec<ClaimView>,
    /// `None`: the holder has no lease.
    free_within_ms: Option<u64>,
    /// When the server notifies the holder. `None`: the holder learns of the loss at its next renewal.
    #[serde(skip)]
    notification: Option<&'static str>,
}

/// Takes the lock away.
pub(crate) fn run(
    options: &RevokeOptions,
    target_options: &TargetOptions,
    target: &Target,
    output: Output,
) -> Result<u8, Failure> {
    take_away(options, Some(&options.reason), target_options, target, output)
}

/// Takes the lock away. `reason` is printed and traced.
pub(crate) fn take_away(
    options: &RevokeOptions,
    reason: Option<&str>,
    target_options: &TargetOptions,
    target: &Target,
    output: Output,
) -> Result<u8, Failure> {
    let (name, mode) = (LockName::new(&options.name)?, options.mode());
    let (revocation, promised) = with_client(target, output, async |client| {
        let state = inspect(client, &name).await?;
        if state.holders.is_empty() {
            return Err(Failure::new(NOTHING_TAKEN, format!("the lock {name:?} is not held")));
        }
        let revocation = take_from_holders(client, &state, mode, reason).await;
        let revocation =
            revocation.map_err(|failure| with_foreign_hint(failure, &state, options, target_options))?;
        Ok((revocation, client.guarantees()))
    })?;
    if mode.is_now() {
        output.warn(&overlap_warning(&promised, &revocation));
    }
    if revocation.free_within_ms.is_none() {
        output.warn(no_lease_warning(&promised));
    }
    output.print(&revocation)?;
    Ok(0)
}

/// Takes the lock from the holders in `state` only: the operator did not mean a later holder.
async fn take_from_holders(
    client: &Client,
    state: &LockState,
    mode: Revoke,
    reason: Option<&str>,
) -> Result<Revocation, Failure> {
    match client.revoke_because(state, mode, reason.unwrap_or_default()).await? {
        Revoked::Done => {
            let after = remaining_claims(client, state, mode).await;
            Ok(Revocation::new(state, mode, reason, &after, &client.guarantees()))
        }
        Revoked::NotHeld => Err(Failure::new(NOTHING_TAKEN, changed_hands(state, &client.guarantees()))
            .hint("see the new holder with latch status")),
    }
}

/// Adds the command with `--foreign` as a hint to the refusal for a foreign holder. Without `--now` there is
/// no hint: that holder releases the lock by itself, or its lease ends.
pub(crate) fn with_foreign_hint(
    failure: Failure,
    state: &LockState,
    options: &RevokeOptions,
    target_options: &TargetOptions,
) -> Failure {
    let is_lock =
        state.holders.iter().all(|holder| holder.foreign.as_ref().is_none_or(|found| found.is_lock));
    if failure.kind() != "foreign" || !options.now || !is_lock {
        return failure;
    }
    failure.hint(shell_command::revoke(&RevokeOptions { foreign: true, ..options.clone() }, target_options))
}

/// The claims after the revocation. The lock is taken away already, so a failure to read the remaining lease
/// is ignored.
async fn remaining_claims(client: &Client, before: &LockState, mode: Revoke) -> LockState {
    match mode.is_now() {
        true => LockState::new(before.name.clone()),
        false => inspect(client, &before.name).await.unwrap_or_else(|_| before.clone()),
    }
}

impl Revocation {
    /// `after` is read after the revocation, because a renewal may have come between the inspection and the
    /// revocation.
    fn new(
        before: &LockState,
        mode: Revoke,
        reason: Option<&str>,
        after: &LockState,
        promised: &Guarantees,
    ) -> Self {
        let was_holder = |id| before.holders.iter().any(|holder| holder.id == id);
        let remaining: Vec<_> = after.holders.iter().filter(|holder| was_holder(holder.id)).collect();
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let leases: Option<Vec<_>> = remaining.iter().map(|holder| holder.expires_in.map(millis)).collect();
        Self {
            name: before.name.as_str().to_owned(),
            how: mode.label(),
            reason: reason.map(str::to_owned),
            taken_from: LockView::new(before, promised).holders,
            free_within_ms: leases.map(|leases| leases.into_iter().max().unwrap_or(0)),
            notification: notification_time(promised),
        }
    }
}

impl Report for Revocation {
    fn text(&self, _: Option<usize>) -> String {
        let from: Vec<_> = self.taken_from.iter().map(ClaimView::who).collect();
        let notified = self.notification.map(|when| format!("it is notified {when}"));
        let when = match self.free_within_ms {
            Some(0) => "the lock is free".to_owned(),
            Some(millis) => {
                let notified = notified.unwrap_or_else(|| "its next renewal is refused".to_owned());
                format!("{notified}, and the lock is free in {} at the latest", shown(millis))
            }
            None => notified.unwrap_or_else(|| "no further renewal is granted".to_owned()),
        };
        let reason = self.reason.as_deref().map(|reason| format!("; reason: {}", sanitize(reason)));
        let (name, reason) = (as_one_word(&self.name), reason.unwrap_or_default());
        format!("{name}: taken from {}; {when}{reason}\n", from.join(" and "))
    }
}

/// When the server notifies a holder that its lock was taken away. `None` if it does not.
fn notification_time(promised: &Guarantees) -> Option<&'static str> {
    match (promised.tells_losses, promised.tells_revocations) {
        (false, _) => None,
        // By a watch over the claim, which begins with the first renewal.
        (true, true) => Some("at once, or at its first renewal if that has not happened yet"),
        // The holder's connection is closed.
        (true, false) => Some("at once"),
    }
}

fn overlap_warning(promised: &Guarantees, revocation: &Revocation) -> String {
    if revocation.taken_from.iter().any(|from| from.foreign.is_some()) {
        return "the former holder is another program and may not notice the loss: both it and the next holder may run, \
                and it has no token that a store could check"
            .to_owned();
    }
    let until = match notification_time(promised) {
        Some(when) => {
            format!(
                "the former holder is notified {when}, but until it has stopped both it and the next holder may run"
            )
        }
        None => "until its next renewal both the former holder and the next may run".to_owned(),
    };
    let then = match promised.tokens {
        Some(_) => "; only a store that checks tokens is safe",
        None => ", and this engine has no tokens to tell them apart",
    };
    format!("{until}{then}")
}

/// The warning about a lock without a lease. It names the event that frees the lock.
fn no_lease_warning(promised: &Guarantees) -> &'static str {
    match promised.outlives_wrapper {
        true => {
            "the holder has no lease: the lock is free when the holder's last process ends; --now frees it at once"
        }
        false => {
            "the holder has no lease: the lock is free when the holder releases it or its session ends; --now frees it at \
             once"
        }
    }
}

fn changed_hands(state: &LockState, promised: &Guarantees) -> String {
    format!(
        "the lock {:?} changed hands meanwhile: {} no longer holds it; nothing was taken away",
        state.name,
        LockView::new(state, promised).who()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork::engine::{ClaimId, ClaimState, Registry};

    use super::*;

    /// The printed result of a revocation on this engine, and the warning for `--now`.
    fn printed(engine: &str, mode: Revoke) -> (String, String) {
        let all = Registry::builtin().guarantees();
        let promised = all.into_iter().find(|one| one.engine == engine).expect("there is one");
        let mut before = LockState::new(LockName::new("x").unwrap());
        let mut holder = ClaimState::new(ClaimId::random());
        holder.expires_in = (!promised.lives_with_session).then_some(Duration::from_secs(9));
        before.holders.push(holder);
        let after = if mode.is_now() { LockState::new(before.name.clone()) } else { before.clone() };
        let revocation = Revocation::new(&before, mode, None, &after, &promised);
        (revocation.text(None), overlap_warning(&promised, &revocation))
    }

    /// A watch over a claim begins with its first renewal, on etcd and on ZooKeeper: before that the holder
    /// is not notified.
    #[test]
    fn a_notification_at_once_is_announced_only_for_engines_that_send_one() {
        let notified = "notified at once, or at its first renewal if that has not happened yet";
        for engine in ["etcd", "zookeeper", "zookeeper-single"] {
            let (text, _) = printed(engine, Revoke::AtLeaseEnd);
            assert!(text.contains(notified), "{engine}: {text}");
            let (text, warning) = printed(engine, Revoke::Now);
            assert!(warning.contains(notified) && text.contains("; the lock is free"), "{engine}: {warning}");
        }
        for engine in ["postgres-session", "mariadb-session"] {
            let (_, warning) = printed(engine, Revoke::Now);
            assert!(
                warning.contains("notified at once, but") && !warning.contains("renewal"),
                "{engine}: {warning}"
            );
        }
        for engine in ["redis", "redlock", "postgres", "mariadb", "memcached", "sqlite"] {
            let (text, _) = printed(engine, Revoke::AtLeaseEnd);
            assert!(
                text.contains("its next renewal is refused, and the lock is free in 9s"),
                "{engine}: {text}"
            );
            assert!(printed(engine, Revoke::Now).1.starts_with("until its next renewal"), "{engine}");
        }
    }

    #[test]
    fn only_a_lock_that_outlives_latch_is_announced_to_end_with_the_last_process() {
        for promised in Registry::builtin().guarantees() {
            let is_flock_like = no_lease_warning(&promised).contains("last process");
            assert_eq!(is_flock_like, promised.engine == "sqlite", "{}", promised.engine);
        }
    }

    #[test]
    fn the_lease_counts_a_renewal_before_the_revocation_and_not_the_next_holder() {
        let [mine, other] = [ClaimId::random(), ClaimId::random()];
        let held = |leases: &[(ClaimId, u64)]| {
            let mut state = LockState::new(LockName::new("x").unwrap());
            for (id, seconds) in leases {
                let mut holder = ClaimState::new(*id);
                holder.expires_in = Some(Duration::from_secs(*seconds));
                state.holders.push(holder);
            }
            state
        };
        let free_within = |after| {
            let (before, promised) =
                (held(&[(mine, 1)]), latchwork::engine::Registry::builtin().guarantees().remove(0));
            Revocation::new(&before, Revoke::AtLeaseEnd, None, &after, &promised).free_within_ms
        };
        assert_eq!(free_within(held(&[(mine, 30)])), Some(30_000));
        assert_eq!(free_within(held(&[(other, 30)])), Some(0));
        assert_eq!(free_within(held(&[])), Some(0));
    }

    #[tokio::test]
    async fn a_holder_that_came_after_the_inspection_keeps_the_lock() {
        let client = latchwork::connect("memory:").await.unwrap();
        let name = LockName::new("x").unwrap();
        let first = client.lock("x").acquire().await.unwrap();
        let seen = inspect(&client, &name).await.unwrap();
        first.release().await.unwrap();
        let second = client.lock("x").acquire().await.unwrap();
        let failure = take_from_holders(&client, &seen, Revoke::Now, None).await.unwrap_err();
        assert_eq!(failure.code(), NOTHING_TAKEN);
        assert!(failure.message().unwrap().contains("changed hands meanwhile: pid "), "{failure:?}");
        assert!(second.is_certain() && !inspect(&client, &name).await.unwrap().holders.is_empty());
    }
}
