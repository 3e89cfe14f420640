//! The modes that may hold a lock together.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Busy, Claim, Engine, Mode, Verdict, Wake};

use super::support::{LONG, busy, granted, waiting};
use crate::Fixture;

fn claim(lock: &str, mode: Mode) -> Claim {
    let mut claim = waiting(lock, LONG);
    claim.mode = mode;
    claim
}

pub(super) async fn readers_share_and_a_writer_excludes<F: Fixture>(fixture: Arc<F>) {
    if !F::guarantees().read_write {
        return;
    }
    let engine = fixture.engine().await;
    let readers = [claim("rw", Mode::Read), claim("rw", Mode::Read)];
    for reader in &readers {
        granted(&engine, reader).await;
    }
    let writer = claim("rw", Mode::Write);
    busy(&engine, &writer).await;
    for reader in &readers {
        busy(&engine, &writer).await;
        engine.release(reader).await.expect("answers");
    }
    granted(&engine, &writer).await;
    busy(&engine, &claim("rw", Mode::Read)).await;
}

pub(super) async fn a_waiting_writer_is_not_overtaken_by_readers<F: Fixture>(fixture: Arc<F>) {
    if !F::guarantees().read_write {
        return;
    }
    let engine = fixture.engine().await;
    let (first, writer, late) = (claim("rw", Mode::Read), claim("rw", Mode::Write), claim("rw", Mode::Read));
    granted(&engine, &first).await;
    busy(&engine, &writer).await;
    busy(&engine, &late).await;
    // The writer stops waiting: the reader behind it may join the first at once.
    engine.release(&writer).await.expect("answers");
    granted(&engine, &late).await;
}

/// Every order in which one of three claims dies, each in a session of its own: every remaining claim is
/// granted, and woken.
pub(super) async fn the_other_claims_advance_whichever_claim_dies<F: Fixture>(fixture: Arc<F>) {
    if !F::guarantees().read_write || !F::guarantees().permits {
        return;
    }
    use Mode::{Exclusive, Permit, Read, Write};
    const TWO: Mode = Permit { of: 2 };
    for (number, modes) in [
        [Exclusive, Exclusive, Exclusive],
        [Read, Write, Read],
        [Read, Read, Write],
        [Write, Read, Read],
        [TWO, TWO, TWO],
        [TWO, TWO, Write],
    ]
    .into_iter()
    .enumerate()
    {
        for dies in 0..2 {
            let lock = format!("deaths {number} {dies}");
            let mut left = Vec::new();
            for mode in modes {
                let (engine, claim) = (fixture.engine().await, claim(&lock, mode));
                let answer = engine.claim(&claim).await.expect("answers");
                left.push((engine, claim, answer));
            }
            let (dead, its_claim, _) = left.remove(dies);
            // An engine that does not detect the death, or not before the ttl is over, must be told.
            if fixture.url().is_none() || F::guarantees().dead_holder.contains("ttl") {
                dead.release(&its_claim).await.expect("answers");
            }
            drop(dead);
            for (engine, claim, answer) in left {
                if let Verdict::Busy(busy) = answer {
                    wait_for(&engine, &claim, busy, F::guarantees().pushes).await;
                }
                engine.release(&claim).await.expect("answers");
            }
        }
    }
}

/// Waits as the core does. On an engine that sends notifications the core's timer is left out: only a
/// notification may wake the waiter.
async fn wait_for<E: Engine>(engine: &E, claim: &Claim, mut busy: Busy, pushes: bool) {
    loop {
        let limit = if pushes { Duration::from_secs(5) } else { busy.again_in };
        let wake = tokio::time::timeout(limit, engine.wait(claim, &busy)).await;
        let wake = if pushes { wake } else { wake.or(Ok(Ok(Wake::Recheck))) };
        if let Wake::Granted(_) = wake.expect("woken by a death").expect("answers") {
            return;
        }
        match engine.claim(claim).await.expect("answers") {
            Verdict::Granted(_) => return,
            Verdict::Busy(again) => busy = again,
        }
    }
}

pub(super) async fn permits_are_limited<F: Fixture>(fixture: Arc<F>) {
    if !F::guarantees().permits {
        return;
    }
    let engine = fixture.engine().await;
    let permits: Vec<_> = (0..4).map(|_| claim("pool", Mode::Permit { of: 3 })).collect();
    for permit in &permits[..3] {
        granted(&engine, permit).await;
    }
    busy(&engine, &permits[3]).await;
    engine.release(&permits[1]).await.expect("answers");
    granted(&engine, &permits[3]).await;
}
