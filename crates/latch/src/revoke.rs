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
use crate::lock_view::{LockView, look};
use crate::output::{Output, Report};
use crate::sanitize::{as_one_word, sanitize};
use crate::shell_command;
use crate::target::Target;

/// Take a lock away from its holder
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
                  latch revoke nightly --reason 'host is gone'         the holder is told, and the lock comes free in time\n  \
                  latch revoke nightly --now --reason 'host is gone'   free at once; the holder may still be at work\n\n\
                  The holder's next renewal is refused: it stops, and the lock is free when its lease ends at the latest. With \
                  --now, the next waiter gets the lock at once; until the holder learns of it two may be at work, and only a \
                  store that checks tokens is safe.\n\n\
                  A holder that is not Latchwork's (another program's key, node, row or connection) is not touched without \
                  --now --foreign. The refusal says what stands there. What cannot be a lock, such as a Redis key that is \
                  no string, is never removed.\n\n\
                  Exit codes: 0 taken away; 1 nothing was taken away, because nobody holds it or it changed hands \
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
    /// The reason, for later questions: shown in the answer; the holder is not told
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) reason: String,
}

impl RevokeOptions {
    pub(crate) fn how(&self) -> Revoke {
        match (self.now, self.foreign) {
            (false, _) => Revoke::AtLeaseEnd,
            (true, false) => Revoke::Now,
            (true, true) => Revoke::NowAlsoForeign,
        }
    }
}

/// The lock that was taken away, and its former holders.
#[derive(Debug, Serialize)]
struct Taken {
    name: String,
    how: &'static str,
    /// `None` for the alias, which asks for none.
    reason: Option<String>,
    taken_from: Vec<ClaimView>,
    /// `None`: there is no lease to end.
    free_within_ms: Option<u64>,
    /// When the holder hears of it. `None`: at its next renewal.
    #[serde(skip)]
    told: Option<&'static str>,
}

/// Takes the lock away.
pub(crate) fn run(
    options: &RevokeOptions,
    place: &TargetOptions,
    target: &Target,
    output: Output,
) -> Result<u8, Failure> {
    carry_out(options, Some(&options.reason), place, target, output)
}

/// Takes the lock away. `reason`: what is shown and noted.
pub(crate) fn carry_out(
    options: &RevokeOptions,
    reason: Option<&str>,
    place: &TargetOptions,
    target: &Target,
    output: Output,
) -> Result<u8, Failure> {
    let (name, how) = (LockName::new(&options.name)?, options.how());
    let (taken, promised) = with_client(target, output, async |client| {
        let state = look(client, &name).await?;
        if state.holders.is_empty() {
            return Err(Failure::new(NOTHING_TAKEN, format!("the lock {name:?} is not held")));
        }
        let taken = take_as_seen(client, &state, how, reason).await;
        let taken = taken.map_err(|failure| advise(failure, &state, options, place))?;
        Ok((taken, client.guarantees()))
    })?;
    if how.is_now() {
        output.warn(&danger(&promised, &taken));
    }
    if taken.free_within_ms.is_none() {
        output.warn(no_lease(&promised));
    }
    output.print(&taken)?;
    Ok(0)
}

/// Takes it from the holders in `state` only: a holder that came after them is not the one that the operator meant.
async fn take_as_seen(
    client: &Client,
    state: &LockState,
    how: Revoke,
    reason: Option<&str>,
) -> Result<Taken, Failure> {
    match client.revoke_because(state, how, reason.unwrap_or_default()).await? {
        Revoked::Done => {
            let after = what_is_left(client, state, how).await;
            Ok(Taken::new(state, how, reason, &after, &client.guarantees()))
        }
        Revoked::NotHeld => Err(Failure::new(NOTHING_TAKEN, moved_on(state, &client.guarantees()))
            .hint("look again with latch status")),
    }
}

/// A refusal for the sake of a foreign holder says what to type if that is what is wanted. Without --now it does
/// not: that holder gives the lock back by itself, or its lease ends.
pub(crate) fn advise(
    failure: Failure,
    state: &LockState,
    options: &RevokeOptions,
    place: &TargetOptions,
) -> Failure {
    let is_lock =
        state.holders.iter().all(|holder| holder.foreign.as_ref().is_none_or(|found| found.is_lock));
    if failure.kind() != "foreign" || !options.now || !is_lock {
        return failure;
    }
    failure.hint(shell_command::revoke(&RevokeOptions { foreign: true, ..options.clone() }, place))
}

/// It is taken away already: not to know for how long the lease still runs must not look like a failure.
async fn what_is_left(client: &Client, before: &LockState, how: Revoke) -> LockState {
    match how.is_now() {
        true => LockState::new(before.name.clone()),
        false => look(client, &before.name).await.unwrap_or_else(|_| before.clone()),
    }
}

impl Taken {
    /// `after`: a renewal may have come between the look and the revocation, so the lease is read once more.
    fn new(
        before: &LockState,
        how: Revoke,
        reason: Option<&str>,
        after: &LockState,
        promised: &Guarantees,
    ) -> Self {
        let was_there = |id| before.holders.iter().any(|holder| holder.id == id);
        let still_there: Vec<_> = after.holders.iter().filter(|holder| was_there(holder.id)).collect();
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let leases: Option<Vec<_>> = still_there.iter().map(|holder| holder.expires_in.map(millis)).collect();
        Self {
            name: before.name.as_str().to_owned(),
            how: how.label(),
            reason: reason.map(str::to_owned),
            taken_from: LockView::new(before, promised).holders,
            free_within_ms: leases.map(|leases| leases.into_iter().max().unwrap_or(0)),
            told: told(promised),
        }
    }
}

impl Report for Taken {
    fn text(&self, _: Option<usize>) -> String {
        let from: Vec<_> = self.taken_from.iter().map(ClaimView::who).collect();
        let told = self.told.map(|when| format!("it is told {when}"));
        let when = match self.free_within_ms {
            Some(0) => "the lock is free".to_owned(),
            Some(millis) => {
                let told = told.unwrap_or_else(|| "its next renewal is refused".to_owned());
                format!("{told}, and the lock is free in {} at the latest", shown(millis))
            }
            None => told.unwrap_or_else(|| "no renewal is granted any more".to_owned()),
        };
        let reason = self.reason.as_deref().map(|reason| format!("; reason: {}", sanitize(reason)));
        let (name, reason) = (as_one_word(&self.name), reason.unwrap_or_default());
        format!("{name}: taken from {}; {when}{reason}\n", from.join(" and "))
    }
}

/// When a holder hears that its lock was taken away, if the server tells it.
fn told(promised: &Guarantees) -> Option<&'static str> {
    match (promised.tells_losses, promised.tells_revocations) {
        (false, _) => None,
        // The holder learns of it by a watch over its claim, which begins with the first renewal.
        (true, true) => Some("at once, or at its first renewal if that is still to come"),
        // The holder's connection is ended.
        (true, false) => Some("at once"),
    }
}

fn danger(promised: &Guarantees, taken: &Taken) -> String {
    if taken.taken_from.iter().any(|from| from.foreign.is_some()) {
        return "the old holder is another program and may not notice: it may still be at work beside the next, and \
                it knows no token that a store could check"
            .to_owned();
    }
    let until = match told(promised) {
        Some(when) => {
            format!(
                "the old holder is told {when}, but until it has stopped it may still be at work beside the next"
            )
        }
        None => "until its next renewal the old holder may still be at work beside the next".to_owned(),
    };
    let then = match promised.tokens {
        Some(_) => "; only a store that checks tokens is safe",
        None => ", and this engine has no tokens to tell them apart",
    };
    format!("{until}{then}")
}

/// Names the event that frees a lock without a lease.
fn no_lease(promised: &Guarantees) -> &'static str {
    match promised.outlives_wrapper {
        true => {
            "there is no lease to end: the lock is free when the holder's last process ends; --now frees it"
        }
        false => {
            "there is no lease to end: the lock is free when the holder lets go or its session ends; --now frees it"
        }
    }
}

fn moved_on(state: &LockState, promised: &Guarantees) -> String {
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

    /// The answer to a revocation on this engine, and the warning that comes with `--now`.
    fn said(engine: &str, how: Revoke) -> (String, String) {
        let all = Registry::builtin().guarantees();
        let promised = all.into_iter().find(|one| one.engine == engine).expect("there is one");
        let mut before = LockState::new(LockName::new("x").unwrap());
        let mut holder = ClaimState::new(ClaimId::random());
        holder.expires_in = (!promised.lives_with_session).then_some(Duration::from_secs(9));
        before.holders.push(holder);
        let after = if how.is_now() { LockState::new(before.name.clone()) } else { before.clone() };
        let taken = Taken::new(&before, how, None, &after, &promised);
        (taken.text(None), danger(&promised, &taken))
    }

    /// A watch over a claim begins with its first renewal, on etcd and on ZooKeeper: before that nobody tells
    /// the holder.
    #[test]
    fn a_holder_is_said_to_be_told_at_once_only_where_it_is() {
        let told = "told at once, or at its first renewal if that is still to come";
        for engine in ["etcd", "zookeeper", "zookeeper-single"] {
            let (answer, _) = said(engine, Revoke::AtLeaseEnd);
            assert!(answer.contains(told), "{engine}: {answer}");
            let (answer, warning) = said(engine, Revoke::Now);
            assert!(warning.contains(told) && answer.contains("; the lock is free"), "{engine}: {warning}");
        }
        for engine in ["postgres-session", "mariadb-session"] {
            let (_, warning) = said(engine, Revoke::Now);
            assert!(
                warning.contains("told at once, but") && !warning.contains("renewal"),
                "{engine}: {warning}"
            );
        }
        for engine in ["redis", "redlock", "postgres", "mariadb", "memcached", "sqlite"] {
            let (answer, _) = said(engine, Revoke::AtLeaseEnd);
            assert!(
                answer.contains("its next renewal is refused, and the lock is free in 9s"),
                "{engine}: {answer}"
            );
            assert!(said(engine, Revoke::Now).1.starts_with("until its next renewal"), "{engine}");
        }
    }

    #[test]
    fn only_a_lock_that_outlives_its_holder_is_said_to_end_with_the_last_process() {
        for promised in Registry::builtin().guarantees() {
            let is_flock_like = no_lease(&promised).contains("last process");
            assert_eq!(is_flock_like, promised.engine == "sqlite", "{}", promised.engine);
        }
    }

    #[test]
    fn a_renewal_that_came_between_counts_and_the_next_holder_does_not() {
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
            Taken::new(&before, Revoke::AtLeaseEnd, None, &after, &promised).free_within_ms
        };
        assert_eq!(free_within(held(&[(mine, 30)])), Some(30_000));
        assert_eq!(free_within(held(&[(other, 30)])), Some(0));
        assert_eq!(free_within(held(&[])), Some(0));
    }

    #[tokio::test]
    async fn whoever_came_after_the_holder_that_was_seen_keeps_the_lock() {
        let client = latchwork::connect("memory:").await.unwrap();
        let name = LockName::new("x").unwrap();
        let first = client.lock("x").acquire().await.unwrap();
        let seen = look(&client, &name).await.unwrap();
        first.release().await.unwrap();
        let second = client.lock("x").acquire().await.unwrap();
        let failure = take_as_seen(&client, &seen, Revoke::Now, None).await.unwrap_err();
        assert_eq!(failure.code(), NOTHING_TAKEN);
        assert!(failure.message().unwrap().contains("changed hands meanwhile: pid "), "{failure:?}");
        assert!(second.is_certain() && !look(&client, &name).await.unwrap().holders.is_empty());
    }
}
