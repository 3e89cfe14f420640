//! Who may hold beside whom.

use std::sync::Arc;

use latchwork::engine::{Claim, Engine, Mode};

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
    // The writer gives up: the reader behind it may join the first at once.
    engine.release(&writer).await.expect("answers");
    granted(&engine, &late).await;
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
