//! The verb `wait`: a wait in the server, on a connection of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;

use super::session_claims::ClaimPhase;
use super::{SessionEngine, SessionStore};
use crate::Result;
use crate::engine::{Busy, Claim, Wake};

impl<S: SessionStore> SessionEngine<S> {
    pub(in crate::engines) async fn wait(&self, claim: &Claim, _: &Busy) -> Result<Wake> {
        let (pool, claims) = (&self.0.pool, &self.0.pool.claims);
        loop {
            let here = Handle::current().id();
            let Some(entry) = claims.get(claim.id) else { return Ok(Wake::Recheck) };
            match entry.phase {
                ClaimPhase::Held(token) => {
                    let Some(leased) = entry.leased else { return Ok(Wake::Recheck) };
                    return pool.grant(&leased, token).await.map(Wake::Granted);
                }
                ClaimPhase::Unconfirmed => return Ok(Wake::Recheck),
                ClaimPhase::WaitEnded(error) => {
                    claims.update(claim.id, |entry| {
                        if matches!(entry.phase, ClaimPhase::WaitEnded(_)) {
                            entry.phase = ClaimPhase::Idle;
                        }
                    });
                    return match error {
                        None => Ok(Wake::Recheck),
                        Some(error) => Err(error.again()),
                    };
                }
                ClaimPhase::Idle => {
                    // In a task, because this future may be dropped at any await. On this runtime, so that a
                    // grant is not passed between threads.
                    if let Some(wait) = claims.begin_wait(claim.id, here) {
                        tokio::spawn(pool.clone().wait_in_server(Arc::new(claim.clone()), wait));
                    }
                    continue;
                }
                // A task on another runtime began this wait, and that runtime may be blocked. The claim is
                // sent again, after the connection of the wait has ended. Until then the connection stays in
                // the entry, because the server may grant the lock there.
                ClaimPhase::Waiting(wait) if wait.runtime != here => {
                    let mut abandoned = None;
                    // Unless the lock was granted there just now.
                    claims.update_wait(claim.id, wait, |entry| {
                        entry.phase = ClaimPhase::Unconfirmed;
                        abandoned = entry.leased.clone();
                    });
                    abandoned.iter().for_each(|leased| leased.close());
                    return Ok(Wake::Recheck);
                }
                ClaimPhase::Waiting(_) => {}
            }
            let Some(wait_ended) = entry.wait_ended else { return Ok(Wake::Recheck) };
            // Until the wait ends, or this future is polled on another runtime.
            let mut notified = pin!(wait_ended.notified());
            poll_fn(|context| match Handle::current().id() == here {
                true => notified.as_mut().poll(context),
                false => Poll::Ready(()),
            })
            .await;
        }
    }
}
