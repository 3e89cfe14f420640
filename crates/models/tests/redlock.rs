//! Redlock's algorithm, in every order of events.

use models::redlock::{Fault, Mutant, Proposals, World};
use stateright::{Checker, HasDiscoveries, Model};

/// Masters whose counters differ, and clients that propose any token: most claims need a raise.
const APART: World = World {
    fault: Fault::Nothing,
    proposals: Proposals::Any,
    ttl: 2,
    horizon: 2,
    tries: 1,
    renewals: 0,
    counters_apart: 1,
    mutant: None,
};

/// Clients with a shared clock, which renew once.
const RENEWING: World =
    World { proposals: Proposals::Clock, counters_apart: 0, renewals: 1, horizon: 3, ..APART };

/// The properties that this world violates. Without a violation, every `sometimes` property must have an
/// example.
fn broken(what: &str, world: World) -> Vec<&'static str> {
    let checked = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth) = (checked.unique_state_count(), checked.max_depth());
    println!("{what}: {states} states, {depth} deep");
    let mut broken = Vec::new();
    for (name, path) in checked.discoveries() {
        match checked.discovery_classification(name).to_string().as_str() {
            "example" => {}
            _ => {
                println!("  {name}: broken by {:?}", path.into_actions());
                broken.push(name);
            }
        }
    }
    if broken.is_empty() {
        checked.assert_properties();
    }
    broken
}

#[test]
fn late_and_lost_messages_break_nothing() {
    assert!(broken("counters apart, any proposal", APART).is_empty());
}

#[test]
fn a_restart_breaks_nothing_with_a_quarantine() {
    let world = World { fault: Fault::Restart { quarantine: true }, ..RENEWING };
    assert!(broken("one restart, quarantine", world).is_empty());
}

/// In this world there can be two holders, and the check must find such a state.
#[test]
fn a_restart_without_quarantine_leaves_tokens_unique_and_rising() {
    let world = World { fault: Fault::Restart { quarantine: false }, horizon: 1, ..RENEWING };
    assert!(broken("one restart, no quarantine", world).is_empty());
}

#[test]
fn a_clock_jump_leaves_tokens_unique_and_rising() {
    let world = World { fault: Fault::ClockJump, horizon: 0, ..APART };
    assert!(broken("one clock jump, counters apart", world).is_empty());
    let world = World { fault: Fault::ClockJump, horizon: 1, ..RENEWING };
    assert!(broken("one clock jump, renewals", world).is_empty());
}

#[test]
fn an_acknowledgement_that_is_not_exact_is_found() {
    let world = World { mutant: Some(Mutant::NotExactly), fault: Fault::ClockJump, horizon: 0, ..APART };
    assert!(broken("mutant: any answer to a raise counts", world).contains(&"no token twice"));
}

#[test]
fn a_missing_write_back_is_found() {
    let world = World { mutant: Some(Mutant::NoWriteBack), horizon: 0, ..APART };
    assert!(broken("mutant: no write-back", world).contains(&"no token twice"));
}

#[test]
fn counting_a_healed_master_at_once_is_found() {
    let fault = Fault::Restart { quarantine: true };
    let world = World { mutant: Some(Mutant::HealedAtOnce), fault, ..RENEWING };
    assert!(broken("mutant: a healed master counts at once", world).contains(&"one holder"));
}
