//! The guarantees of one Redis server.

use std::time::Duration;

use super::options::Scheme;
use crate::engines::quarantine::QuarantinePolicy;
use crate::{Faults, Guarantees, Promise};

pub(super) fn guarantees(
    scheme: Scheme,
    max_ttl: Duration,
    quarantine: QuarantinePolicy,
    warnings: Vec<String>,
) -> Guarantees {
    let shares = scheme == Scheme::Set;
    Guarantees {
        engine: if shares { "redis" } else { "redis-setnx" },
        tokens: Some("max(counter + 1, server time in us)"),
        tokens_survive_data_loss: true,
        fair: true,
        lists_waiters: true,
        pushes: true,
        tells_losses: false,
        tells_revocations: true,
        lives_with_session: false,
        read_write: shares,
        permits: shares,
        cells: true,
        watchers_told: "at once",
        takes_over: true,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl,
        ttl_option: Some("max-ttl"),
        dead_holder: "the ttl; if waiters died too, up to 4 s more",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: match quarantine {
                QuarantinePolicy::Strict => Promise::Exclusive,
                QuarantinePolicy::Auto | QuarantinePolicy::Off => Promise::FencedOnly,
            },
            failover: Promise::FencedOnly,
            partition: Promise::Exclusive,
            clock_step: Promise::FencedOnly,
            data_deleted: Promise::FencedOnly,
        },
        beware: "evicts locks unless maxmemory-policy is noeviction; quarantine=strict makes a restart exclusive",
        warnings,
    }
}
