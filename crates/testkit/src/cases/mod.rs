//! The conformance table: every case runs on every engine that promises what the case needs.

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
mod short_processes;
mod storms;
mod support;
mod waits;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use latchwork::{Guarantees, Promise};

use crate::Fixture;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One promise, as a test.
pub struct Case<F> {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// The contract rules it checks.
    pub rules: &'static [&'static str],
    /// Why it does not apply to an engine, if it does not.
    pub unless: fn(&Guarantees, &F) -> Option<&'static str>,
    /// Whether no other case may use its server meanwhile: it counts what the server is asked, or starts many processes, which
    /// would starve the short leases of others.
    pub alone: bool,
    /// Hundredths of a core that it needs.
    pub cores: u32,
    /// Whether it shows what may depend on how an engine is reached, and not only on what it does then.
    pub is_basic: bool,
    /// The test.
    pub run: fn(Arc<F>) -> Running,
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
                b"short_processes" | b"storms" => 40,
                // Most of a case is waiting for leases to end.
                _ => 10,
            },
            is_basic: matches!(
                stringify!($room).as_bytes(),
                b"contract" | b"names" | b"leases" | b"cost" | b"short_processes"
            )
                || matches!(stringify!($case).as_bytes(), b"any_bytes_are_a_value_and_any_name_is_a_cell")
                || (F::HAS_FOREIGN_HOLDERS_OF_ITS_OWN && matches!(stringify!($room).as_bytes(), b"foreign")),
            run: |fixture| Box::pin($room::$case(fixture)),
        },)*)*]
    };
}

/// Every case.
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
            ["C4"] nobody_else_is_granted_before_the_deadline_that_was_told;
            ["C4"] a_handed_over_grant_is_above_the_floor, unless tells_nobody;
            ["C5"] an_error_says_that_nothing_was_done_and_nothing_was;
            ["C6"] a_dropped_wait_misses_nothing, unless tells_nobody;
            ["C7"] a_hundred_ids_of_one_session_get_one_grant;
            ["C8"] a_renewal_never_revives_what_was_released_expired_or_revoked;
            ["C14"] a_removed_claim_is_told_long_before_its_next_renewal, unless hears_nothing;
        core_rules:
            ["C10"] no_claim_is_sent_before_the_last_release_was_answered;
            ["C11" "C12"] every_claim_ends_in_a_release_and_is_never_sent_again;
        names:
            [] names_that_nest_are_unrelated_locks;
            [] names_are_compared_bytewise;
            [] awkward_names_are_data;
            [] a_bad_name_or_ttl_is_refused_with_the_limit;
        contention:
            [] trying_a_held_lock_says_none_at_once;
            [] waiters_are_served_in_the_order_of_arrival;
            [] a_hundred_contenders_all_get_their_turn_one_at_a_time;
            [] a_wait_that_times_out_names_the_holder_and_leaves_nothing;
            [] a_waiter_that_leaves_the_middle_of_the_queue_blocks_nobody;
            [] a_lock_is_passed_from_task_to_task_with_rising_tokens, unless no_tokens;
            [] a_guard_that_must_not_be_passed_is_not, unless no_tokens;
            [] passing_ends_for_the_sake_of_other_clients;
            [] an_engine_that_hangs_does_not_outlast_the_wait_limit;
            [] the_holder_and_the_waiters_can_be_seen;
            [] a_task_that_nobody_runs_does_not_keep_its_turn, unless lives_in_the_runtime;
            [] a_task_that_nobody_runs_does_not_ask_for_the_others, unless lives_in_the_runtime;
            [] a_release_that_nobody_runs_does_not_keep_its_lock, unless lives_in_the_runtime;
            [] a_task_that_nobody_runs_does_not_keep_its_lock_from_tries, unless lives_in_the_runtime;
            [] tokens_rise_also_when_everything_stored_was_destroyed, unless forgets;
        waits:
            [] a_free_lock_and_one_that_is_only_tried_tell_of_no_wait;
            [] a_waiter_is_told_who_holds_the_lock_and_when_that_changes;
            [] a_task_behind_another_of_its_client_is_told_so;
            [] a_waiter_is_told_of_an_outage_and_of_its_end;
            [] a_panic_in_what_is_told_leaves_nothing_behind;
            [] a_thread_that_waits_is_told_on_that_thread, unless lives_in_the_runtime;
        leases:
            [] work_longer_than_the_ttl_keeps_its_lock;
            [] blocked_user_code_does_not_starve_renewal, unless blocks;
            [] the_holder_is_told_before_its_lease_ends_when_the_engine_is_gone;
            [] a_holder_whose_claim_was_removed_is_told_at_the_next_renewal;
            [] a_revoked_lock_is_told_and_comes_free;
            [] a_lock_revoked_now_is_free_at_once;
            [] a_holder_whose_lock_was_revoked_now_hears_that_it_was_revoked, unless tells_no_revocation;
            [] a_claim_bound_to_its_session_needs_no_renewal, unless no_session;
            [] a_guard_dropped_outside_a_runtime_is_released;
            [] a_client_outlives_the_runtime_it_was_used_in, unless lives_in_the_runtime;
            [] a_runtime_that_nobody_drives_keeps_no_news_from_others, unless lives_in_the_runtime;
            [] a_failed_release_is_repeated_in_the_background;
        foreign:
            [] a_foreign_holder_is_not_touched_unless_asked_for, unless no_foreigners;
        held:
            [] a_view_knows_what_its_guard_knows_and_no_more;
            [] work_is_dropped_when_its_lock_is_lost;
            [] work_gives_its_own_result_and_the_lock_back;
            [] nobody_holds_longer_than_max_hold;
        outcomes:
            [] a_claim_whose_reply_is_lost_is_asked_for_again;
            [] a_claim_that_stays_unanswered_is_undone;
            [] an_error_says_until_when_the_lock_may_be_held;
            [] an_outage_costs_a_waiter_nothing_but_time;
            [] an_outage_longer_than_the_wait_limit_is_told_as_one;
            [] a_claim_that_arrives_after_its_release_is_given_back;
            [] an_error_before_anything_was_sent_says_so;
            [] a_try_while_the_server_is_down_reports_the_error;
            [] a_try_reports_a_release_that_failed_and_has_it_repeated_at_once;
            [] a_try_on_a_thread_reports_a_release_that_failed;
            [] a_lock_is_called_held_by_another_task_only_if_one_holds_it;
            [] closing_waits_for_what_goes_on_in_the_background;
        owners:
            ["C13"] an_owner_takes_over_from_itself_past_the_queue, unless no_owners;
            ["C13"] an_owner_that_waits_takes_over_when_it_asks_again, unless no_owners;
            [] guards_of_one_owner_hold_together, unless no_owners;
            [] guards_of_one_owner_that_wait_are_let_in_together, unless no_owners;
            [] a_guard_that_was_taken_over_is_told_and_harmless, unless no_owners;
            [] a_bad_owner_is_refused_with_the_limit, unless no_owners;
        modes:
            [] readers_share_and_a_writer_excludes;
            [] a_waiting_writer_is_not_overtaken_by_readers;
            [] permits_are_limited;
            [] whoever_dies_the_others_move_up;
        sharing:
            [] what_an_engine_cannot_share_is_refused_before_anything_is_sent;
            [] a_thousand_readers_of_one_client_share_a_claim, unless no_readers;
            [] a_writer_elsewhere_waits_for_no_more_than_a_read_and_the_time_to_pass, unless no_readers;
            [] a_waiting_writer_holds_back_readers_and_readers_go_in_together, unless no_readers;
            [] a_writer_that_gives_up_lets_the_readers_behind_it_in, unless no_readers;
            [] readers_and_writers_keep_every_promise, unless no_readers;
            [] permits_keep_every_promise, unless no_permits;
            [] one_client_may_have_every_permit_and_its_tasks_share_what_there_is, unless no_permits;
            [] another_number_of_permits_is_refused, unless no_permits;
            [] a_permit_that_is_not_to_be_had_says_how_many_are_held, unless no_permits;
        recipes:
            [] fifty_tasks_in_opposite_orders_never_wait_for_each_other;
            [] of_several_locks_all_are_held_or_none;
            [] of_several_locks_the_loss_of_one_is_the_loss_of_all;
            [] nobody_waits_behind_a_busy_segment_while_another_is_free;
            [] a_lock_is_held_at_least_as_long_as_it_was_asked_to_be;
        cells:
            [] what_has_no_cells_says_so, unless has_cells;
            ["V1"] of_all_who_saw_one_version_one_sets_the_cell, unless no_cells;
            ["V2"] a_cell_that_was_deleted_never_has_an_old_version_again, unless no_cells;
            ["V3"] cells_answer_as_one_at_one_place_would, unless no_cells;
            ["V4"] every_watcher_of_a_cell_is_told_of_the_latest_value, unless no_cells;
            ["V5"] an_outage_costs_a_watcher_of_a_cell_nothing_but_time, unless no_cells;
            ["V5"] a_cell_whose_write_was_not_answered_is_not_written_again, unless no_cells_on_a_wire;
            ["V4"] a_watcher_of_a_cell_that_nobody_has_set_is_told_when_it_is_set_and_deleted, unless no_cells;
            ["V2"] a_cell_that_all_set_and_delete_without_looking_has_versions_that_only_rise, unless no_cells;
            [] no_update_of_a_cell_is_lost, unless no_cells;
            [] any_bytes_are_a_value_and_any_name_is_a_cell, unless no_cells;
            [] a_lock_and_a_cell_of_one_name_are_unrelated, unless no_cells;
        elections:
            ["V6"] leaders_take_turns_and_observers_see_terms_rise, unless no_cells;
            [] a_standby_takes_over_when_the_leader_is_gone, unless no_cells;
            [] what_is_in_an_elections_cell_is_not_taken_for_a_leader, unless no_cells_of_leaders;
            [] who_cannot_tell_that_it_leads_does_not_lead, unless no_cells_of_leaders_on_a_wire;
        deaths:
            [] the_permit_of_a_dead_holder_comes_back_alone, unless no_shared_permits;
            [] dead_readers_and_writers_hold_nobody_up, unless no_shared_readers;
            [] a_kept_lock_outlives_its_process_where_leases_do, unless one_process;
        storms:
            [] killed_and_stopped_processes_break_no_promise, unless one_process;
            [] those_who_are_cut_off_break_no_promise, unless cannot_be_cut_off;
        blocking:
            [] threads_take_turns_without_a_runtime;
            [] a_blocking_call_inside_a_runtime_works;
            [] a_thread_is_told_of_a_loss;
            [] what_is_built_on_locks_works_without_a_runtime;
            [] cells_and_elections_work_without_a_runtime, unless no_cells;
        cancel:
            [] an_acquire_dropped_at_any_point_leaves_nothing_behind;
            [] a_dropped_driver_hands_its_place_to_the_task_behind_it;
            [] a_release_dropped_at_any_point_still_releases;
        short_processes:
            [] a_guard_dropped_at_the_end_of_a_process_leaves_nothing_held, unless one_process;
            [] the_last_of_a_client_and_its_guards_waits_once_for_a_dead_server, unless no_proxy;
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
