//! The guarantees of an etcd cluster, by its version.

use std::time::Duration;

use crate::{Faults, Guarantees, Promise};

/// The first versions of their lines without known faults of leases and watches.
const FIXED: [[u32; 3]; 2] = [[3, 4, 42], [3, 5, 28]];

/// `version` may be empty: it is not known then.
pub(super) fn guarantees(version: &str) -> Guarantees {
    let (across, warnings) = match has_no_known_faults(version) {
        true => (Promise::Exclusive, Vec::new()),
        false => (Promise::FencedOnly, vec![warning(version)]),
    };
    Guarantees {
        engine: "etcd",
        tokens: Some("create revision"),
        tokens_survive_data_loss: false,
        fair: true,
        lists_waiters: true,
        pushes: true,
        tells_losses: true,
        tells_revocations: true,
        lives_with_session: false,
        read_write: true,
        permits: true,
        cells: true,
        watchers_told: "at once",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_secs(1),
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: None,
        dead_holder: "the ttl (2 s at least) and up to 1 s more; after a change of leader the ttl anew",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::Exclusive,
            failover: across,
            partition: across,
            clock_step: Promise::Exclusive,
            data_deleted: Promise::FencedOnly,
        },
        beware: "before 3.4.42 and 3.5.28 leases have known faults: failover and network cuts are fenced only there",
        warnings,
    }
}

/// Whether no fault of leases or watches is known in this version. An unknown version counts as one without
/// faults.
fn has_no_known_faults(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let numbers: [u32; 3] = std::array::from_fn(|_| parts.next().unwrap_or(0));
    let same_line = FIXED.iter().find(|fixed| fixed[..2] == numbers[..2]);
    version.is_empty() || same_line.map_or(numbers > FIXED[1], |fixed| numbers >= *fixed)
}

fn warning(version: &str) -> String {
    format!(
        "etcd {version} has known faults of leases and watches (a lease revoked by a former leader, lost events); \
         3.4.42, 3.5.28 and later do not"
    )
}
