//! The guarantees of an engine as JSON.

use latchwork::{Guarantees, Promise};
use serde::Serialize;

/// Every field of [`Guarantees`], with units in the keys.
#[derive(Debug, Serialize)]
pub(crate) struct GuaranteesView {
    engine: &'static str,
    tokens: Option<&'static str>,
    tokens_survive_data_loss: bool,
    fair: bool,
    lists_waiters: bool,
    pushes: bool,
    tells_losses: bool,
    tells_revocations: bool,
    lives_with_session: bool,
    read_write: bool,
    permits: bool,
    cells: bool,
    watchers_told: &'static str,
    takes_over: bool,
    survives_blocked_runtime: bool,
    outlives_wrapper: bool,
    min_ttl_ms: u64,
    max_ttl_ms: u64,
    ttl_option: Option<&'static str>,
    dead_holder: &'static str,
    faults: FaultsView,
    beware: &'static str,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FaultsView {
    holder_crash: &'static str,
    holder_pause: &'static str,
    restart: &'static str,
    failover: &'static str,
    partition: &'static str,
    clock_step: &'static str,
    data_deleted: &'static str,
}

impl GuaranteesView {
    pub(crate) fn new(promised: &Guarantees) -> Self {
        let faults = &promised.faults;
        Self {
            engine: promised.engine,
            tokens: promised.tokens,
            tokens_survive_data_loss: promised.tokens_survive_data_loss,
            fair: promised.fair,
            lists_waiters: promised.lists_waiters,
            pushes: promised.pushes,
            tells_losses: promised.tells_losses,
            tells_revocations: promised.tells_revocations,
            lives_with_session: promised.lives_with_session,
            read_write: promised.read_write,
            permits: promised.permits,
            cells: promised.cells,
            watchers_told: promised.watchers_told,
            takes_over: promised.takes_over,
            survives_blocked_runtime: promised.survives_blocked_runtime,
            outlives_wrapper: promised.outlives_wrapper,
            min_ttl_ms: promised.min_ttl.as_millis() as u64,
            max_ttl_ms: promised.max_ttl.as_millis() as u64,
            ttl_option: promised.ttl_option,
            dead_holder: promised.dead_holder,
            faults: FaultsView {
                holder_crash: word_for(faults.holder_crash),
                holder_pause: word_for(faults.holder_pause),
                restart: word_for(faults.restart),
                failover: word_for(faults.failover),
                partition: word_for(faults.partition),
                clock_step: word_for(faults.clock_step),
                data_deleted: word_for(faults.data_deleted),
            },
            beware: promised.beware,
            warnings: promised.warnings.clone(),
        }
    }
}

fn word_for(promise: Promise) -> &'static str {
    match promise {
        Promise::Exclusive => "exclusive",
        Promise::FencedOnly => "fenced_only",
        Promise::Breaks => "breaks",
        Promise::NotApplicable => "not_applicable",
    }
}
