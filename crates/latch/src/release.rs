//! `latch release NAME --force`: takes a lock away from its holder.

use clap::Args;
use latchwork::engine::{LockState, Revoke, Revoked};
use latchwork::{Client, LockName};
use serde::Serialize;

use crate::claim_view::ClaimView;
use crate::cli::TargetOptions;
use crate::connection::with_client;
use crate::duration::shown;
use crate::failure::{Failure, NOTHING_TAKEN, USAGE};
use crate::lock_view::{LockView, look};
use crate::printable::as_one_word;
use crate::shell_command;
use crate::target::Target;
use crate::voice::{Report, Voice};

/// Take a lock away from whoever holds it
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch release nightly                  says who holds it, and takes nothing away\n  \
                  latch release nightly --force          the holder is told, and the lock comes free in time\n  \
                  latch release nightly --force --now    free at once; the holder may still be at work\n\n\
                  With --force, the holder's next renewal is refused: it stops, and the lock is free when its lease \
                  ends at the latest. With --now, the holder learns of it only at its next renewal: until then two \
                  may be at work, and only a store that checks tokens is safe.\n\n\
                  Exit codes: 0 taken away; 1 nothing was taken away, because nobody holds it or it changed hands \
                  meanwhile; 64 usage, also without --force; 69 engine unreachable.")]
pub(crate) struct ReleaseOptions {
    /// The lock
    pub(crate) name: String,
    /// Yes, take it away
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not wait for the end of the holder's lease
    #[arg(long)]
    pub(crate) now: bool,
}

/// What was taken from whom.
#[derive(Debug, Serialize)]
struct Taken {
    name: String,
    how: &'static str,
    taken_from: Vec<ClaimView>,
    /// `None`: there is no lease to end.
    free_within_ms: Option<u64>,
}

/// Takes the lock away.
pub(crate) fn run(
    options: &ReleaseOptions,
    place: &TargetOptions,
    target: &Target,
    voice: Voice,
) -> Result<u8, Failure> {
    let name = LockName::new(&options.name)?;
    if !options.force {
        let holders = with_client(target, voice, async |client| look(client, &name).await);
        return Err(teach(options, place, holders.ok().as_ref().map(LockView::new)));
    }
    let how = if options.now { Revoke::Now } else { Revoke::AtLeaseEnd };
    let (taken, danger) =
        with_client(target, voice, async |client| Ok((take(client, &name, how).await?, danger(client))))?;
    if how == Revoke::Now {
        voice.warn(danger);
    }
    if taken.free_within_ms.is_none() {
        voice.warn(
            "there is no lease to end: the lock is free when the holder's last process ends; --now frees it",
        );
    }
    voice.print(&taken)?;
    Ok(0)
}

async fn take(client: &Client, name: &LockName, how: Revoke) -> Result<Taken, Failure> {
    let state = look(client, name).await?;
    if state.holders.is_empty() {
        return Err(Failure::new(NOTHING_TAKEN, format!("the lock {name:?} is not held")));
    }
    take_as_seen(client, &state, how).await
}

/// Takes it from the holders in `state` only: whoever came after them is not whom the operator meant.
async fn take_as_seen(client: &Client, state: &LockState, how: Revoke) -> Result<Taken, Failure> {
    match client.revoke(state, how).await? {
        Revoked::Done => Ok(Taken::new(state, how, &what_is_left(client, state, how).await)),
        Revoked::NotHeld => {
            Err(Failure::new(NOTHING_TAKEN, moved_on(state)).hint("look again with latch status"))
        }
    }
}

/// It is taken away already: not to know for how long the lease still runs must not look like a failure.
async fn what_is_left(client: &Client, before: &LockState, how: Revoke) -> LockState {
    match how {
        Revoke::Now => LockState::new(before.name.clone()),
        Revoke::AtLeaseEnd => look(client, &before.name).await.unwrap_or_else(|_| before.clone()),
    }
}

impl Taken {
    /// `after`: a renewal may have come between the look and the revocation, so the lease is read once more.
    fn new(before: &LockState, how: Revoke, after: &LockState) -> Self {
        let was_there = |id| before.holders.iter().any(|holder| holder.id == id);
        let still_there: Vec<_> = after.holders.iter().filter(|holder| was_there(holder.id)).collect();
        let leases: Option<Vec<_>> =
            still_there.iter().map(|holder| ClaimView::new(holder).lease_left_ms).collect();
        Self {
            name: before.name.as_str().to_owned(),
            how: if how == Revoke::Now { "now" } else { "at_lease_end" },
            taken_from: before.holders.iter().map(ClaimView::new).collect(),
            free_within_ms: leases.map(|leases| leases.into_iter().max().unwrap_or(0)),
        }
    }
}

impl Report for Taken {
    fn text(&self, _: Option<usize>) -> String {
        let from: Vec<_> = self.taken_from.iter().map(ClaimView::who).collect();
        let when = match self.free_within_ms {
            Some(0) => "the lock is free".to_owned(),
            Some(millis) => format!(
                "its next renewal is refused, and the lock is free in {} at the latest",
                shown(millis)
            ),
            None => "no renewal is granted any more".to_owned(),
        };
        format!("{}: taken from {}; {when}\n", as_one_word(&self.name), from.join(" and "))
    }
}

fn danger(client: &Client) -> &'static str {
    match client.guarantees().tokens {
        Some(_) => {
            "until its next renewal the old holder may still be at work beside the next; only a store that checks tokens is safe"
        }
        None => {
            "until its next renewal the old holder may still be at work beside the next, and this engine has no tokens to tell them apart"
        }
    }
}

fn moved_on(state: &LockState) -> String {
    format!(
        "the lock {:?} changed hands meanwhile: {} no longer holds it; nothing was taken away",
        state.name,
        LockView::new(state).who()
    )
}

fn teach(options: &ReleaseOptions, place: &TargetOptions, lock: Option<LockView>) -> Failure {
    let who = match lock {
        Some(lock) if lock.held => format!("held by {}", lock.who()),
        Some(_) => "nobody holds it now".to_owned(),
        None => "who holds it is not known: the engine does not answer".to_owned(),
    };
    let message =
        format!("release takes the lock {:?} away from its holder, which needs --force; {who}", options.name);
    Failure::new(USAGE, message).hint(shell_command::release(options, place))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork::engine::{ClaimId, ClaimState};

    use super::*;

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
        let free_within = |after| Taken::new(&held(&[(mine, 1)]), Revoke::AtLeaseEnd, &after).free_within_ms;
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
        let failure = take_as_seen(&client, &seen, Revoke::Now).await.unwrap_err();
        assert_eq!(failure.code(), NOTHING_TAKEN);
        assert!(failure.message().unwrap().contains("changed hands meanwhile: pid "), "{failure:?}");
        assert!(second.is_certain() && !look(&client, &name).await.unwrap().holders.is_empty());
    }
}
