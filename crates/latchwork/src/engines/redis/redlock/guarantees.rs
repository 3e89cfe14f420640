//! The guarantees of a majority of masters.

use std::time::Duration;

use crate::{Faults, Guarantees, Promise};

pub(super) fn guarantees(max_ttl: Duration, is_strict: bool, warnings: Vec<String>) -> Guarantees {
    Guarantees {
        engine: "redlock",
        tokens: Some("counter that a majority agrees on, at least the client's time in us"),
        tokens_survive_data_loss: true,
        fair: false,
        lists_waiters: false,
        pushes: false,
        tells_losses: false,
        tells_revocations: true,
        lives_with_session: false,
        read_write: false,
        permits: false,
        cells: false,
        watchers_told: "-",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl,
        ttl_option: Some("max-ttl"),
        dead_holder: "the ttl",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: if is_strict { Promise::Exclusive } else { Promise::FencedOnly },
            failover: Promise::FencedOnly,
            partition: Promise::Exclusive,
            clock_step: Promise::FencedOnly,
            data_deleted: Promise::FencedOnly,
        },
        beware: "exclusive as long as a majority of masters keeps what it was told and counts time at the right rate; who \
                 waits asks again and again, in no order",
        warnings,
    }
}
