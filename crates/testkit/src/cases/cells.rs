//! Values with versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use latchwork::{Cell, CellState, Effect, ErrorKind, Result, Version, Written};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::support::{LONG, hold, pause};
use crate::cell_history::CellHistory;
use crate::network::proxy::Proxy;
use crate::{Fixture, drop_at_poll};

/// Longer than any watcher may take to see a change.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn set(cell: &Cell, value: &str) -> CellState {
    cell.update(|_| value.into()).await.expect("the engine answers")
}

pub(super) async fn an_engine_without_cells_reports_it<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let cell = client.cell("none");
    let error = cell.get().await.expect_err("refused");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::None));
    let says = error.to_string();
    assert!(says.starts_with("cell \"none\": ") && says.contains("has no cells"), "{says}");
    let says = client.election("none").campaign("x").await.expect_err("refused").to_string();
    assert!(says.starts_with("election \"none\": ") && says.contains("has no cells"), "{says}");
    assert_eq!(cell.set_if(Version::ABSENT, "x").await.expect_err("refused").kind(), ErrorKind::Unsupported);
    assert_eq!(cell.watch().next().await.expect_err("refused").kind(), ErrorKind::Unsupported);
}

pub(super) async fn one_of_all_clients_that_saw_a_version_sets_the_cell<F: Fixture>(fixture: Arc<F>) {
    let clients = [fixture.client().await, fixture.client().await];
    let mut seen = Version::ABSENT;
    for round in 0..4 {
        let mut racers = JoinSet::new();
        for number in 0..10 {
            let cell = clients[number % 2].cell("race");
            racers
                .spawn(async move { cell.set_if(seen, format!("{round} {number}")).await.expect("answers") });
        }
        let answers = racers.join_all().await;
        let done: Vec<_> = answers.iter().filter(|answer| **answer != Written::Changed).collect();
        let [Written::Done(version)] = done[..] else { panic!("set by {done:?}") };
        assert!(*version > seen);
        seen = *version;
        assert_eq!(clients[0].cell("race").get().await.expect("answers").version, seen);
    }
}

pub(super) async fn a_deleted_cell_never_has_an_old_version_again<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    let (cell, same) = (client.cell("reborn"), other.cell("reborn"));
    let mut old = Vec::new();
    for round in 0..5 {
        let now = set(&cell, &format!("life {round}")).await;
        assert!(old.iter().all(|old| *old < now.version), "{:?} after {old:?}", now.version);
        for stale in &old {
            assert_eq!(same.set_if(*stale, "from the past").await.expect("answers"), Written::Changed);
            assert_eq!(same.delete_if(*stale).await.expect("answers"), Written::Changed);
        }
        assert_eq!(same.set_if(Version::ABSENT, "first").await.expect("answers"), Written::Changed);
        assert_eq!(same.get().await.expect("answers"), now);
        old.push(now.version);
        assert_eq!(same.delete_if(now.version).await.expect("answers"), Written::Done(Version::ABSENT));
        assert_eq!(cell.get().await.expect("answers"), CellState::ABSENT);
        for stale in &old {
            assert_eq!(cell.set_if(*stale, "from the grave").await.expect("answers"), Written::Changed);
            assert_eq!(cell.delete_if(*stale).await.expect("answers"), Written::Changed);
        }
    }
    assert_eq!(cell.delete_if(Version::ABSENT).await.expect_err("refused").kind(), ErrorKind::Invalid);
}

pub(super) async fn cells_are_linearizable<F: Fixture>(fixture: Arc<F>) {
    let clients = [fixture.client().await, fixture.client().await, fixture.client().await];
    let history = Arc::new(CellHistory::default());
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let (cell, history) = (clients[number % 3].cell("linear"), history.clone());
        tasks.spawn(async move {
            for round in 0..20 {
                let seen = history.get(&cell).await.expect("answers").version;
                let value = format!("{number} {round}");
                history.set_if(&cell, seen, value.as_bytes()).await.expect("answers");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(history.len(), 6 * 20 * 2);
    history.check().expect("linearizable");
}

pub(super) async fn no_update_of_a_cell_is_lost<F: Fixture>(fixture: Arc<F>) {
    let clients = [fixture.client().await, fixture.client().await];
    let mut tasks = JoinSet::new();
    for number in 0..6 {
        let cell = clients[number % 2].cell("count");
        tasks.spawn(async move {
            for _ in 0..5 {
                let add = |old: Option<&[u8]>| {
                    let old = old.map_or(0, |old| str::from_utf8(old).unwrap().parse::<u32>().unwrap());
                    (old + 1).to_string().into_bytes()
                };
                cell.update(add).await.expect("its turn comes");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(clients[0].cell("count").get().await.expect("answers").text().expect("text"), Some("30"));
}

pub(super) async fn every_watcher_of_a_cell_is_told_of_the_latest_value<F: Fixture>(fixture: Arc<F>) {
    let (writer, reader) = (fixture.client().await, fixture.client().await);
    let cell = writer.cell("news");
    let mut watchers = JoinSet::new();
    for _ in 0..4 {
        let mut changes = reader.cell("news").watch();
        watchers.spawn(async move {
            let mut versions = Vec::new();
            loop {
                let now = changes.next().await.expect("answers");
                if !now.is_set() {
                    continue;
                }
                versions.push(now.version);
                if now.bytes() == Some(b"last") {
                    return versions;
                }
            }
        });
    }
    for value in ["one", "two", "two", "last"] {
        pause(20).await;
        set(&cell, value).await;
    }
    let told = timeout(PATIENCE, watchers.join_all()).await.expect("told");
    for versions in told {
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    }
    // A change between two calls is not missed, and a change that ends a wait is reported once.
    let mut changes = reader.cell("news").watch();
    assert_eq!(changes.next().await.expect("answers").bytes(), Some(&b"last"[..]));
    for polls in 0..6 {
        let _ = timeout(Duration::from_millis(10), drop_at_poll::after_polls(changes.next(), polls)).await;
        let now = set(&cell, &polls.to_string()).await;
        let told = timeout(PATIENCE, changes.next()).await.expect("told").expect("answers");
        assert_eq!(told, now);
    }
    // A deletion is a change, too.
    let now = cell.get().await.expect("answers");
    cell.delete_if(now.version).await.expect("answers");
    let told = timeout(PATIENCE, changes.next()).await.expect("told").expect("answers");
    assert_eq!(told, CellState::ABSENT);
}

pub(super) async fn a_watcher_of_an_absent_cell_is_told_when_it_is_set_and_deleted<F: Fixture>(
    fixture: Arc<F>,
) {
    let (writer, reader) = (fixture.client().await, fixture.client().await);
    let cell = writer.cell("unset");
    let mut states = reader.cell("unset").watch();
    assert_eq!(states.next().await.expect("answers"), CellState::ABSENT);
    for text in ["one", "two"] {
        // A watcher that has seen the absence waits, and its stream does not end.
        assert!(
            timeout(Duration::from_millis(50), states.next()).await.is_err(),
            "there is no change to report"
        );
        let version = cell.set(text).await.expect("answers");
        let told = timeout(PATIENCE, states.next()).await.expect("told").expect("answers");
        assert_eq!((told.version, told.text().expect("the bytes are text")), (version, Some(text)));
        assert!(cell.delete().await.expect("answers"));
        let told = timeout(PATIENCE, states.next()).await.expect("told").expect("answers");
        assert_eq!(told, CellState::ABSENT);
    }
    assert!(!cell.delete().await.expect("answers"), "the cell was not set again");
}

pub(super) async fn versions_of_a_cell_rise_under_unconditional_writes_and_deletions<F: Fixture>(
    fixture: Arc<F>,
) {
    let clients = [fixture.client().await, fixture.client().await];
    let mut writers = JoinSet::new();
    for number in 0..4 {
        let cell = clients[number % 2].cell("blind");
        writers.spawn(async move {
            let mut versions = Vec::new();
            for round in 0..6 {
                versions.push(cell.set(format!("{number} {round}")).await.expect("its turn comes"));
                if round % 3 == 2 {
                    cell.delete().await.expect("its turn comes");
                }
            }
            assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
            versions
        });
    }
    let mut all: Vec<_> = writers.join_all().await.concat();
    let last = clients[0].cell("blind").set("last").await.expect("answers");
    assert!(all.iter().all(|version| *version < last), "{last:?} after {all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4 * 6, "two writes have one version");
    let found = clients[1].cell("blind").get().await.expect("answers");
    assert_eq!(found, CellState::new(last, b"last".to_vec()));
}

pub(super) async fn an_outage_costs_a_watcher_of_a_cell_nothing_but_time<F: Fixture>(fixture: Arc<F>) {
    let (writer, reader) = (fixture.client().await, fixture.client().await);
    let before = set(&writer.cell("dark"), "before").await;
    let mut changes = reader.cell("dark").watch();
    assert_eq!(changes.next().await.expect("answers"), before);
    // An error that is not an outage is reported at once, and no change is missed either.
    let watching = tokio::spawn(async move {
        loop {
            match changes.next().await {
                Ok(told) => return told,
                Err(_) => pause(20).await,
            }
        }
    });
    pause(50).await;
    fixture.breaks_cells().await;
    let error =
        writer.cell("dark").set_if(before.version, "during").await.expect_err("the connection is broken");
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Corrupt), "{error}");
    fixture.mend_cells().await;
    let fresh = fixture.client().await;
    let found = fresh.cell("dark").get().await.expect("answers");
    assert!(error.effect() == Effect::Unknown || found == before, "the error claims no effect: {error}");
    let after = set(&fresh.cell("dark"), "after").await;
    assert!(after.version > before.version);
    let told = timeout(PATIENCE, watching).await.expect("told").expect("no panic");
    assert!(told.version == found.version || told.version == after.version, "{told:?}");
}

pub(super) async fn an_unanswered_write_of_a_cell_is_not_repeated<F: Fixture>(fixture: Arc<F>) {
    let cell = fixture.client().await.cell("unheard");
    let before = set(&cell, "before").await;
    let setting = cell.clone();
    let set_once = silenced(&*fixture, "unheard", "+once", async move {
        setting.set_if(before.version, "before+once").await.map(drop)
    });
    set_once.await;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let updated_once = silenced(&*fixture, "unheard", "+again", async move {
        let change = |old: Option<&[u8]>| {
            counted.fetch_add(1, Ordering::Relaxed);
            [old.expect("set"), b"+again"].concat()
        };
        cell.update(change).await.map(drop)
    });
    updated_once.await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let blind = fixture.client().await.cell("unheard");
    let found = blind.get().await.expect("answers");
    assert_eq!(found.text().expect("the bytes are text"), Some("before+once+again"));
    // An unconditional write is no different: it could arrive after another client's write and undo it.
    let setting = blind.clone();
    silenced(&*fixture, "unheard", "+blind", async move { setting.set("+blind").await.map(drop) }).await;
    let written = fixture.client().await.cell("unheard").get().await.expect("answers");
    assert_eq!(written.text().expect("the bytes are text"), Some("+blind"));
}

/// Lets `write`, which contains `word`, reach the server and the cell, drops its answer, and checks that the
/// error says so.
pub(super) async fn silenced<F: Fixture>(
    fixture: &F,
    cell: &str,
    word: &str,
    write: impl Future<Output = Result<()>> + Send + 'static,
) {
    let looking = fixture.client().await.cell(cell);
    let proxies = fixture.proxies();
    proxies.iter().for_each(|proxy| proxy.silence_after(word.as_bytes()));
    let writing = tokio::spawn(write);
    let is_there = async {
        loop {
            let found = looking.get().await.expect("answers");
            if found.text().expect("text").is_some_and(|text| text.contains(word)) {
                return;
            }
            assert!(!writing.is_finished(), "no waiter was told, and the claim does not wait");
            pause(5).await;
        }
    };
    timeout(PATIENCE, is_there).await.expect("the value was written");
    proxies.iter().for_each(Proxy::cut);
    let error =
        timeout(PATIENCE, writing).await.expect("it is told").expect("no panic").expect_err("no answer");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
}

pub(super) async fn any_bytes_are_a_value_and_any_name_is_a_cell<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    let all: Vec<u8> = (0..=255).collect();
    for value in [Vec::new(), vec![0], b"\r\n".to_vec(), all, vec![b'x'; Cell::MAX_BYTES]] {
        let now = client.cell("bytes").update(|_| value.clone()).await.expect("answers");
        let found = other.cell("bytes").get().await.expect("answers");
        assert!(found == now && found.value.as_ref() == Some(&value), "{} bytes", value.len());
    }
    let error = client.cell("bytes").set_if(Version::ABSENT, vec![0; Cell::MAX_BYTES + 1]).await;
    let error = error.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("524289") && error.to_string().contains("524288"), "{error}");
    let names = [
        "a",
        "a/b",
        "a/b/c",
        "A",
        "a ",
        "naïve",
        "%2F",
        "'; drop table cell; --",
        "../x",
        "*",
        &"x".repeat(512),
    ];
    for name in names {
        assert_eq!(client.cell(name).get().await.expect("answers"), CellState::ABSENT, "{name:?}");
        assert!(
            matches!(client.cell(name).set_if(Version::ABSENT, name).await, Ok(Written::Done(_))),
            "{name:?}"
        );
    }
    for name in names {
        assert_eq!(
            other.cell(name).get().await.expect("answers").text().expect("the bytes are text"),
            Some(name)
        );
    }
    for bad in ["", "nul\0", &"x".repeat(513)] {
        assert_eq!(client.cell(bad).get().await.expect_err("refused").kind(), ErrorKind::Invalid);
    }
}

pub(super) async fn a_lock_and_a_cell_of_one_name_are_unrelated<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    for name in ["both", "both/inner"] {
        let now = set(&client.cell(name), "value").await;
        let guard = hold(&other, name).await;
        assert_eq!(client.cell(name).get().await.expect("answers"), now);
        let next = set(&client.cell(name), "other").await;
        assert!(guard.is_certain() && next.version > now.version);
        let tried = client.lock(name).ttl(LONG).try_acquire().await.expect("answers");
        assert!(tried.is_none(), "held");
        guard.release().await.expect("held");
        assert_eq!(client.cell(name).get().await.expect("answers"), next);
        hold(&client, name).await.release().await.expect("held");
    }
}
