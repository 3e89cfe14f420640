//! The guarantees of a scheme.

use std::time::Duration;

use super::options::Scheme;
use crate::{Faults, Guarantees, Promise};

pub(super) fn guarantees(scheme: Scheme, min_ttl: Duration, warnings: Vec<String>) -> Guarantees {
    let is_queue = scheme == Scheme::Sequential;
    Guarantees {
        engine: if is_queue { "zookeeper" } else { "zookeeper-single" },
        tokens: Some("czxid"),
        tokens_survive_data_loss: false,
        fair: is_queue,
        lists_waiters: is_queue,
        pushes: true,
        tells_losses: true,
        tells_revocations: true,
        lives_with_session: true,
        read_write: is_queue,
        permits: is_queue,
        cells: true,
        watchers_told: "at once",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl,
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: Some("session-ttl"),
        dead_holder: "the session's ttl and a tick; again after a change of leader",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::Exclusive,
            failover: Promise::Exclusive,
            partition: Promise::Exclusive,
            clock_step: Promise::Exclusive,
            data_deleted: Promise::FencedOnly,
        },
        beware: "fenced only with a session-ttl below three of the server's ticks, and while a leader has not noticed \
                 that its followers left it",
        warnings,
    }
}
