//! The conformance table: every case runs on every engine whose guarantees meet the case's requirements.

mod blocking;
mod cancel;
mod cells;
mod contention;
mod contract;
mod core_rules;
mod cost;
mod deaths;
mod elections;
mod foreign;
mod held;
mod leases;
mod modes;
mod names;
mod outcomes;
mod owners;
mod processes;
mod recipes;
mod sharing;
mod storms;
mod support;
mod unclean_exits;
mod waits;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use latchwork::{Guarantees, Promise};

use crate::Fixture;

type CaseFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One guarantee, as a test.
pub struct Case<F> {
    /// The guarantee, as a sentence.
    pub name: &'static str,
    /// The contract rules it checks.
    pub rules: &'static [&'static str],
    /// The reason why the case does not apply to an engine, if it does not.
    pub unless: fn(&Guarantees, &F) -> Option<&'static str>,
    /// Whether no other case may use the case's server meanwhile, because the case counts requests, or starts
    /// many processes, which would starve the short leases of others.
    pub alone: bool,
    /// The share of a core that the case needs, in hundredths.
    pub cores: u32,
    /// Whether the case tests behaviour that may depend on how an engine is reached.
    pub is_basic: bool,
    /// The test function.
    pub run: fn(Arc<F>) -> CaseFuture,
}

macro_rules! cases {
    ($($room:ident: $([$($rule:literal)*] $case:ident $(, unless $unless:expr)?;)*)*) => {
        vec![$($(Case {
            name: stringify!($case),
            rules: &[$($rule),*],
            unless: { #[allow(unused_mut, unused_assignments, reason = "most cases apply everywhere")] {
                let mut unless: fn(&Guarantees, &F) -> Option<&'static str> = |_, _| None;
                $(unless = $unless;)?
                unless
            } },
            alone: matches!(stringify!($room).as_bytes(), b"processes" | b"cost"),
            cores: match stringify!($room).as_bytes() {
                b"processes" => 120,
                b"unclean_exits" | b"storms" => 40,
                // Most cases spend their time waiting for leases to end.
                _ => 10,
            },
            is_basic: matches!(
                stringify!($room).as_bytes(),
                b"contract" | b"names" | b"leases" | b"cost" | b"unclean_exits"
            )
                || matches!(stringify!($case).as_bytes(), b"any_bytes_are_a_value_and_any_name_is_a_cell")
                || (F::HAS_FOREIGN_HOLDERS_OF_ITS_OWN && matches!(stringify!($room).as_bytes(), b"foreign")),
            run: |fixture| Box::pin($room::$case(fixture)),
        },)*)*]
    };
}

/// All cases.
pub fn all<F: Fixture>() -> Vec<Case<F>> {
    let one_process: fn(&Guarantees, &F) -> Option<&'static str> =
        |_, fixture| fixture.url().is_none().then_some("cannot be shared between processes");
    let no_wire: fn(&Guarantees, &F) -> Option<&'static str> = |_, fixture| {
        let has_none = fixture.round_trips().is_none() && fixture.url().is_none();
        let is_apart = fixture.draws_tokens_apart().then_some("draws its tokens in another request");
        has_none.then_some("has no round trips").or(is_apart)
    };
    let forgets: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.tokens_survive_data_loss).then_some("does not promise tokens across data loss");
    let no_tokens: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| g.tokens.is_none().then_some("has no tokens");
    let blocks: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.survives_blocked_runtime).then_some("renews on the runtime that the case blocks");
    let lives_in_the_runtime: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.survives_blocked_runtime).then_some("lives in its runtime");
    let no_session: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.outlives_wrapper).then_some("cannot bind a claim to its session alone");
    let hears_nothing: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.tells_losses).then_some("hears nothing between renewals");
    let tells_nobody: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.pushes).then_some("tells nobody of a release");
    let no_owners: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.takes_over).then_some("knows no owners");
    let no_readers: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.read_write).then_some("has no read and write locks");
    let no_permits: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (!g.permits).then_some("has no permits");
    let no_cells: fn(&Guarantees, &F) -> Option<&'static str> = |g, _| (!g.cells).then_some("has no cells");
    let no_cells_on_a_wire: fn(&Guarantees, &F) -> Option<&'static str> = |g, fixture| {
        let no_wire = fixture.proxies().is_empty().then_some("has no wire on which a reply could be lost");
        (!g.cells).then_some("has no cells").or(no_wire)
    };
    let no_cells_of_leaders: fn(&Guarantees, &F) -> Option<&'static str> = |g, _| {
        let elsewhere = F::HAS_LEADERS.then_some("keeps what a leader tells with its claim");
        (!g.cells).then_some("has no cells").or(elsewhere)
    };
    let no_cells_of_leaders_on_a_wire: fn(&Guarantees, &F) -> Option<&'static str> = |g, fixture| {
        let elsewhere = F::HAS_LEADERS.then_some("keeps what a leader tells with its claim");
        let no_wire = fixture.proxies().is_empty().then_some("has no wire on which a reply could be lost");
        (!g.cells).then_some("has no cells").or(elsewhere).or(no_wire)
    };
    let no_foreigners: fn(&Guarantees, &F) -> Option<&'static str> =
        |_, _| (!F::HAS_FOREIGN_HOLDERS).then_some("keeps its locks where no other program has one");
    let tells_no_revocation: fn(&Guarantees, &F) -> Option<&'static str> = |g, _| {
        (!g.tells_revocations).then_some("cannot tell a lock that was revoked at once from one that is gone")
    };
    let no_proxy: fn(&Guarantees, &F) -> Option<&'static str> =
        |_, fixture| fixture.proxies().is_empty().then_some("has no server that could stop answering");
    let cannot_be_cut_off: fn(&Guarantees, &F) -> Option<&'static str> =
        |g, _| (g.faults.partition == Promise::NotApplicable).then_some("cannot be cut off");
    let has_cells: fn(&Guarantees, &F) -> Option<&'static str> = |g, _| g.cells.then_some("has cells");
    let no_shared_readers: fn(&Guarantees, &F) -> Option<&'static str> = |g, fixture| {
        let alone = fixture.url().is_none().then_some("cannot be shared between processes");
        (!g.read_write).then_some("has no read and write locks").or(alone)
    };
    let no_shared_permits: fn(&Guarantees, &F) -> Option<&'static str> = |g, fixture| {
        let alone = fixture.url().is_none().then_some("cannot be shared between processes");
        (!g.permits).then_some("has no permits").or(alone)
    };
    cases! {
        contract:
            ["C1"] a_repeated_claim_gives_the_same_answer;
            ["C2"] a_release_is_safe_at_any_time_and_touches_no_other_claim;
            ["C4"] no_other_client_is_granted_before_the_reported_deadline;
            ["C4"] a_handed_over_grant_is_above_the_floor, unless tells_nobody;
            ["C5"] an_error_that_reports_no_effect_had_none;
            ["C6"] a_dropped_wait_misses_nothing, unless tells_nobody;
            ["C7"] a_hundred_ids_of_one_session_get_one_grant;
            ["C8"] a_renewal_never_revives_what_was_released_expired_or_revoked;
            ["C14"] a_removed_claim_is_reported_long_before_its_next_renewal, unless hears_nothing;
        core_rules:
            ["C10"] no_claim_is_sent_before_the_last_release_was_answered;
            ["C11" "C12"] every_claim_ends_in_a_release_and_is_never_sent_again;
        names:
            [] names_that_nest_are_unrelated_locks;
            [] names_are_compared_bytewise;
            [] awkward_names_are_data;
            [] an_invalid_name_or_ttl_is_refused_with_the_limit;
        contention:
            [] a_try_of_a_held_lock_returns_none_at_once;
            [] waiters_are_granted_the_lock_in_the_order_of_arrival;
            [] a_hundred_contenders_all_get_their_turn_one_at_a_time;
            [] a_wait_that_times_out_names_the_holder_and_leaves_nothing;
            [] a_waiter_that_leaves_the_middle_of_the_queue_blocks_no_other;
            [] a_lock_is_handed_from_task_to_task_with_rising_tokens, unless no_tokens;
            [] a_lock_without_local_handoff_is_not_handed_over, unless no_tokens;
            [] local_handoff_is_limited_in_favour_of_other_clients;
            [] an_engine_that_hangs_does_not_outlast_the_wait_limit;
            [] the_holder_and_the_waiters_can_be_inspected;
            [] a_task_that_is_not_polled_does_not_keep_its_turn, unless lives_in_the_runtime;
            [] a_task_that_is_not_polled_does_not_claim_for_the_others, unless lives_in_the_runtime;
            [] a_release_that_is_not_polled_does_not_keep_its_lock, unless lives_in_the_runtime;
            [] a_task_that_is_not_polled_does_not_keep_its_lock_from_tries, unless lives_in_the_runtime;
            [] tokens_rise_even_after_all_stored_data_was_destroyed, unless forgets;
        waits:
            [] a_free_lock_and_a_try_report_no_wait;
            [] a_waiter_is_told_the_holder_and_its_changes;
            [] a_task_behind_another_of_its_client_is_told_of_it;
            [] a_waiter_is_told_of_an_outage_and_of_its_end;
            [] a_panic_in_the_waiting_callback_leaves_nothing_behind;
            [] a_blocking_waiter_is_told_on_its_own_thread, unless lives_in_the_runtime;
        leases:
            [] work_longer_than_the_ttl_keeps_its_lock;
            [] blocked_user_code_does_not_starve_renewal, unless blocks;
            [] the_holder_is_told_before_its_lease_ends_when_the_engine_is_gone;
            [] a_holder_whose_claim_was_removed_is_told_at_the_next_renewal;
            [] a_revoked_lock_is_reported_and_becomes_free;
            [] a_lock_revoked_at_once_is_free_at_once;
            [] a_holder_whose_lock_was_revoked_at_once_is_told_of_the_revocation, unless tells_no_revocation;
            [] a_claim_bound_to_its_session_needs_no_renewal, unless no_session;
            [] a_guard_dropped_outside_a_runtime_is_released;
            [] a_client_outlives_the_runtime_it_was_used_in, unless lives_in_the_runtime;
            [] a_runtime_that_is_not_driven_withholds_no_notification_from_others, unless lives_in_the_runtime;
            [] a_failed_release_is_retried_in_the_background;
        foreign:
            [] a_foreign_holder_is_not_revoked_by_default, unless no_foreigners;
        held:
            [] a_view_reports_the_state_of_its_guard_and_no_more;
            [] work_is_dropped_when_its_lock_is_lost;
            [] work_returns_its_result_and_releases_the_lock;
            [] no_client_holds_longer_than_max_hold;
        outcomes:
            [] a_claim_whose_reply_is_lost_is_retried;
            [] a_claim_that_stays_unanswered_is_undone;
            [] an_error_tells_until_when_the_lock_may_be_held;
            [] an_outage_costs_a_waiter_nothing_but_time;
            [] an_outage_longer_than_the_wait_limit_is_reported_as_one;
            [] a_claim_that_arrives_after_its_release_is_released_again;
            [] an_error_before_anything_was_sent_reports_no_effect;
            [] a_try_while_the_server_is_down_reports_the_error;
            [] a_try_reports_a_failed_release_and_has_it_retried_at_once;
            [] a_blocking_try_reports_a_failed_release;
            [] an_error_names_another_task_as_holder_only_if_one_holds_the_lock;
            [] closing_a_client_waits_for_background_work;
        owners:
            ["C13"] an_owner_takes_over_from_itself_past_the_queue, unless no_owners;
            ["C13"] a_waiting_owner_takes_over_when_it_claims_again, unless no_owners;
            [] guards_of_one_owner_hold_together, unless no_owners;
            [] waiting_guards_of_one_owner_are_granted_together, unless no_owners;
            [] a_guard_that_was_taken_over_is_told_and_does_no_harm, unless no_owners;
            [] an_invalid_owner_is_refused_with_the_limit, unless no_owners;
        modes:
            [] readers_share_and_a_writer_excludes;
            [] a_waiting_writer_is_not_overtaken_by_readers;
            [] permits_are_limited;
            [] the_other_claims_advance_whichever_claim_dies;
        sharing:
            [] an_unsupported_mode_is_refused_before_anything_is_sent;
            [] a_thousand_readers_of_one_client_share_a_claim, unless no_readers;
            [] a_writer_of_another_client_waits_for_no_more_than_a_read_and_the_join_time, unless no_readers;
            [] a_waiting_writer_holds_back_readers_and_readers_are_admitted_together, unless no_readers;
            [] a_writer_that_gives_up_admits_the_readers_behind_it, unless no_readers;
            [] readers_and_writers_keep_every_promise, unless no_readers;
            [] permits_keep_every_promise, unless no_permits;
            [] one_client_may_have_every_permit_and_its_tasks_share_them, unless no_permits;
            [] another_number_of_permits_is_refused, unless no_permits;
            [] an_unavailable_permit_reports_how_many_are_held, unless no_permits;
        recipes:
            [] fifty_tasks_in_opposite_orders_never_wait_for_each_other;
            [] several_locks_are_held_together_or_not_at_all;
            [] the_loss_of_one_of_several_locks_is_the_loss_of_all;
            [] no_waiter_waits_for_a_busy_segment_while_another_is_free;
            [] a_lock_is_held_at_least_for_its_minimum_time;
        cells:
            [] an_engine_without_cells_reports_it, unless has_cells;
            ["V1"] one_of_all_clients_that_saw_a_version_sets_the_cell, unless no_cells;
            ["V2"] a_deleted_cell_never_has_an_old_version_again, unless no_cells;
            ["V3"] cells_are_linearizable, unless no_cells;
            ["V4"] every_watcher_of_a_cell_is_told_of_the_latest_value, unless no_cells;
            ["V5"] an_outage_costs_a_watcher_of_a_cell_nothing_but_time, unless no_cells;
            ["V5"] an_unanswered_write_of_a_cell_is_not_repeated, unless no_cells_on_a_wire;
            ["V4"] a_watcher_of_an_absent_cell_is_told_when_it_is_set_and_deleted, unless no_cells;
            ["V2"] versions_of_a_cell_rise_under_unconditional_writes_and_deletions, unless no_cells;
            [] no_update_of_a_cell_is_lost, unless no_cells;
            [] any_bytes_are_a_value_and_any_name_is_a_cell, unless no_cells;
            [] a_lock_and_a_cell_of_one_name_are_unrelated, unless no_cells;
        elections:
            ["V6"] leaders_take_turns_and_observers_see_terms_rise, unless no_cells;
            [] a_standby_takes_over_when_the_leader_is_gone, unless no_cells;
            [] a_foreign_value_in_an_elections_cell_is_not_taken_for_a_leader, unless no_cells_of_leaders;
            [] a_candidate_that_cannot_publish_its_value_does_not_lead, unless no_cells_of_leaders_on_a_wire;
        deaths:
            [] only_the_permit_of_a_dead_holder_is_returned, unless no_shared_permits;
            [] dead_readers_and_writers_delay_no_other, unless no_shared_readers;
            [] a_kept_lock_outlives_its_process_where_leases_do, unless one_process;
        storms:
            [] killed_and_stopped_processes_break_no_promise, unless one_process;
            [] clients_that_are_cut_off_break_no_promise, unless cannot_be_cut_off;
        blocking:
            [] threads_take_turns_without_a_runtime;
            [] a_blocking_call_inside_a_runtime_works;
            [] a_thread_is_told_of_a_loss;
            [] recipes_work_without_a_runtime;
            [] cells_and_elections_work_without_a_runtime, unless no_cells;
        cancel:
            [] an_acquire_dropped_at_any_point_leaves_nothing_behind;
            [] a_dropped_driver_hands_its_place_to_the_task_behind_it;
            [] a_release_dropped_at_any_point_still_releases;
        unclean_exits:
            [] a_guard_dropped_at_the_end_of_a_process_leaves_nothing_held, unless one_process;
            [] the_last_drop_of_a_client_and_its_guards_waits_once_for_a_dead_server, unless no_proxy;
        cost:
            ["C9"] a_free_lock_costs_one_round_trip_and_so_does_its_release, unless no_wire;
        processes:
            [] four_processes_count_to_ten_thousand, unless one_process;
            [] a_killed_holder_is_noticed_within_a_tenth_of_the_ttl, unless one_process;
            [] a_killed_holder_is_noticed_behind_a_waiter_that_left, unless one_process;
            [] killed_waiters_are_skipped, unless one_process;
            [] a_stopped_holder_loses_its_lock_after_the_ttl, unless one_process;
            [] two_hundred_processes_all_get_their_turn, unless one_process;
    }
}
