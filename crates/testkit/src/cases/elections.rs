//! At most one leader at a time.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Engine, Filter, Revoke};
use latchwork::{ErrorKind, Leader, Version};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cells::{set, silenced};
use super::support::{LONG, name, nothing_left, waiters};
use crate::Fixture;

/// Longer than any observer may take to learn of a leader.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn leaders_take_turns_and_observers_see_terms_rise<F: Fixture>(fixture: Arc<F>) {
    let has_leaders = fixture.engine().await.cells().is_some_and(|cells| cells.has_leaders());
    assert_eq!(has_leaders, F::HAS_LEADERS);
    let clients = [fixture.client().await, fixture.client().await];
    let mut observer = clients[1].election("turns").observe();
    let observing = tokio::spawn(async move {
        let mut seen = Vec::new();
        loop {
            let leader = observer.next().await.expect("answers");
            let is_last = leader.value == b"last";
            seen.push(leader);
            if is_last {
                return seen;
            }
        }
    });
    let mut candidates = JoinSet::new();
    for number in 0..6_usize {
        let election = clients[number % 2].election("turns").ttl(LONG);
        candidates.spawn(async move {
            let value = format!("candidate {number}").into_bytes();
            let leading = election.campaign(value.as_slice()).await.expect("its turn comes");
            let leader = Leader { term: leading.term(), value };
            assert_eq!(election.leader().await.expect("answers"), Some(leader.clone()));
            assert!(leading.is_certain());
            leading.resign().await.expect("the leader held until here");
            leader
        });
    }
    let mut led = candidates.join_all().await;
    led.sort_by_key(|leader| leader.term);
    assert!(led.is_sorted_by(|a, b| a.term < b.term), "{led:?}");
    let election = clients[0].election("turns").ttl(LONG);
    assert_eq!(election.leader().await.expect("answers"), None, "all have resigned");
    let last = election.campaign("last").await.expect("there is no leader");
    let seen = timeout(PATIENCE, observing).await.expect("told").expect("no panic");
    assert!(seen.is_sorted_by(|a, b| a.term < b.term), "{seen:?}");
    assert_eq!(seen.last().map(|leader| leader.term), Some(last.term()));
    assert!(seen.iter().all(|leader| leader.value == b"last" || led.contains(leader)), "{seen:?}");
    drop(last);
    nothing_left(&clients[1], "turns").await;
}

pub(super) async fn a_standby_takes_over_when_the_leader_is_gone<F: Fixture>(fixture: Arc<F>) {
    let (main, standby) = (fixture.client().await, fixture.client().await);
    let ttl = F::STEADY;
    let leading = main.election("service").ttl(ttl).campaign("main").await.expect("there is no leader");
    let waiting = standby.election("service").ttl(ttl);
    let taking_over = tokio::spawn(async move { waiting.campaign("standby").await });
    waiters(&standby, "service", 1).await;
    let state = standby.inspect(&Filter::Name(name("service"))).await.expect("answers").remove(0);
    standby.revoke(&state, Revoke::Now).await.expect("answers");
    let next = timeout(PATIENCE, taking_over).await.expect("elected").expect("no panic").expect("elected");
    assert!(next.term() > leading.term());
    timeout(PATIENCE, leading.lost()).await.expect("the former leader is told");
    let told = main.election("service").leader().await.expect("answers").expect("there is a leader");
    assert_eq!((told.term, told.text().expect("the bytes are text")), (next.term(), "standby"));
    let error = leading.resign().await.expect_err("the former leader no longer led");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().starts_with("election \""), "{error}");
    let told = main.election("service").leader().await.expect("answers").expect("there is a leader");
    assert_eq!(told.term, next.term());
}

pub(super) async fn a_foreign_value_in_an_elections_cell_is_not_taken_for_a_leader<F: Fixture>(
    fixture: Arc<F>,
) {
    let client = fixture.client().await;
    client.cell("foreign").set_if(Version::ABSENT, "not a leader").await.expect("answers");
    let election = client.election("foreign").ttl(LONG);
    for error in [
        election.leader().await.expect_err("refused"),
        election.campaign("x").await.expect_err("refused"),
        election.observe().next().await.expect_err("refused"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().starts_with("election \"foreign\": "), "{error}");
    }
    nothing_left(&client, "foreign").await;
    // A later leader has published its value already: a leader that was paused in between does not publish
    // its own.
    client.cell("late").set_if(Version::ABSENT, format!("{}\nlater", u64::MAX)).await.expect("answers");
    let error = client.election("late").ttl(LONG).campaign("paused").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Lost);
    nothing_left(&client, "late").await;
}

/// The server has published the leader, but the leader did not get the answer: it resigns, and no observer
/// believes the published value.
pub(super) async fn a_candidate_that_cannot_publish_its_value_does_not_lead<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    set(&client.cell("mute"), "0\nnobody").await;
    let election = client.election("mute").ttl(LONG);
    let campaign = silenced(&*fixture, "mute", "the mute", async move {
        election.campaign("the mute").await.map(|leading| panic!("{leading:?} leads"))
    });
    campaign.await;
    let other = fixture.client().await;
    nothing_left(&other, "mute").await;
    let election = other.election("mute").ttl(LONG);
    assert_eq!(election.leader().await.expect("answers"), None);
    let leading = timeout(PATIENCE, election.campaign("heard")).await.expect("free").expect("answers");
    assert_eq!(election.leader().await.expect("answers").map(|leader| leader.term), Some(leading.term()));
}
