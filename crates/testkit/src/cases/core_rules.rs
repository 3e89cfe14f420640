//! The rules that the core keeps towards every engine, observed from the engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use latchwork::Client;

use super::support::{hold, nothing_left, pause};
use crate::recording_engine::{EngineEvent, RecordingEngine};
use crate::{Fixture, drop_at_poll};

/// A mix of holds, waits that time out, tries, acquires dropped half-way and dropped guards, by ten tasks on
/// two names.
async fn busy_day<F: Fixture>(fixture: &Arc<F>) -> Vec<EngineEvent> {
    let recorder = RecordingEngine::new(fixture.engine().await);
    let events = recorder.events();
    let (client, rival) = (Client::new(recorder), fixture.client().await);
    let task = |number: u32| {
        let (client, rival) = (client.clone(), rival.clone());
        tokio::spawn(async move {
            let lock = ["day", "night"][number as usize % 2];
            for round in 0..12 {
                match (number + round) % 6 {
                    0 => drop(hold(&client, lock).await),
                    1 => drop(client.lock(lock).try_acquire().await.expect("answers")),
                    2 => drop(client.lock(lock).wait(Duration::from_millis(3)).acquire().await),
                    3 => drop(drop_at_poll::after_polls(client.lock(lock).acquire(), 1 + round % 3).await),
                    4 => drop(hold(&rival, lock).await),
                    _ => hold(&client, lock).await.release().await.expect("held"),
                }
                pause(1).await;
            }
        })
    };
    for task in (0..10).map(task).collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    nothing_left(&rival, "day").await;
    nothing_left(&rival, "night").await;
    drop(client);
    events.lock().expect("no thread panicked while recording").clone()
}

pub(super) async fn no_claim_is_sent_before_the_last_release_was_answered<F: Fixture>(fixture: Arc<F>) {
    let mut open = HashMap::new();
    let mut claims = 0;
    for event in busy_day(&fixture).await {
        match event {
            EngineEvent::Claim(lock, id) => {
                claims += 1;
                let last = open.insert(lock, id);
                assert!(
                    last.is_none_or(|last| last == id),
                    "claimed again while {last:?} was still outstanding"
                );
            }
            EngineEvent::Released(lock, id) if open.get(&lock) == Some(&id) => drop(open.remove(&lock)),
            EngineEvent::Claimed(lock, _, false) => drop(open.remove(&lock)),
            _ => {}
        }
    }
    assert!(claims > 20, "the day was too quiet to show anything");
}

pub(super) async fn every_claim_ends_in_a_release_and_is_never_sent_again<F: Fixture>(fixture: Arc<F>) {
    let (mut kept, mut ended) = (HashSet::new(), HashSet::new());
    for event in busy_day(&fixture).await {
        match event {
            EngineEvent::Claim(_, id) => assert!(!ended.contains(&id), "claimed again after its end"),
            EngineEvent::Claimed(_, id, true) => drop(kept.insert(id)),
            EngineEvent::Release(_, id) | EngineEvent::Lost(_, id) => drop(ended.insert(id)),
            _ => {}
        }
    }
    let left: Vec<_> = kept.difference(&ended).collect();
    assert!(left.is_empty() && kept.len() > 10, "of {} kept, never released: {left:?}", kept.len());
}
