//! The metrics, spans and events of the core, read back through `metrics` and `tracing`.
#![allow(clippy::disallowed_methods, reason = "tests count their own time")]
#![cfg(all(feature = "telemetry", feature = "memory"))]

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork::engine::Filter;
use latchwork::engines::Memory;
use latchwork::engines::memory::Verb;
use latchwork::{Client, Effect, LockName};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// Remembers how often every metric was touched.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<String, u64>>>);

struct Line(Ledger, String);

impl CounterFn for Line {
    fn increment(&self, by: u64) {
        *self.0.0.lock().expect("no panic").entry(self.1.clone()).or_default() += by;
    }
    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Line {
    fn record(&self, _: f64) {
        self.increment(1);
    }
}

impl Ledger {
    fn line(&self, key: &Key) -> Arc<Line> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Line(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.line(key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.line(key))
    }
}

/// Writes down spans and events.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Diary {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("latchwork")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(format!("span {}", span.metadata().name()));
        span.record(&mut fields);
        let mut lines = self.0.lock().expect("no panic");
        lines.push(fields.0);
        Id::from_u64(lines.len() as u64)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(format!("{}", event.metadata().level()));
        event.record(&mut fields);
        self.0.lock().expect("no panic").push(fields.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A little of everything that can happen to a lock, on paused time.
async fn a_busy_day() -> latchwork::Result<()> {
    let engine = Memory::new();
    let (client, rival) = (Client::new(engine.clone()), Client::new(engine.clone()));
    let lock = client.lock("canary-lock").ttl(Duration::from_secs(9)).pass_for(Duration::from_secs(9));
    let guard = lock.acquire().await?;
    assert!(rival.lock("canary-lock").try_acquire().await?.is_none());
    assert!(rival.lock("canary-lock").wait(Duration::from_millis(5)).acquire().await.is_err());
    drop(tokio::time::timeout(Duration::from_millis(5), rival.lock("canary-lock").acquire()).await);
    let (passed, released) = tokio::join!(lock.acquire(), async {
        tokio::task::yield_now().await;
        guard.release().await
    });
    released?;
    passed?.release().await?;
    let owned = client.lock("canary-owned").owner("me");
    let guards = [owned.acquire().await?, owned.acquire().await?];
    tokio::time::sleep(Duration::from_secs(15)).await; // renewed
    engine.fail_next(Verb::Renew, Effect::Unknown);
    tokio::time::sleep(Duration::from_secs(15)).await;
    engine.lose(&LockName::new("canary-owned")?);
    guards[0].lost().await;
    drop(guards);
    engine.fail_next(Verb::Claim, Effect::None);
    assert!(lock.try_acquire().await.is_err());
    let guard = lock.acquire().await?;
    engine.fail_next(Verb::Release, Effect::None);
    drop(guard);
    client.close().await?;
    assert!(client.inspect(&Filter::Prefix(String::new())).await?.is_empty());
    Ok(())
}

#[test]
fn every_step_of_a_locks_life_is_counted_and_told() {
    let (ledger, diary) = (Ledger::default(), Diary::default());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    metrics::with_local_recorder(&ledger, || {
        tracing::subscriber::with_default(diary.clone(), || {
            runtime().expect("a runtime").block_on(a_busy_day()).expect("a good day");
        });
    });
    let counted = ledger.0.lock().expect("no panic");
    for (line, least) in [
        ("latchwork_acquires_total{engine=memory,outcome=granted}", 3),
        ("latchwork_acquires_total{engine=memory,outcome=passed}", 1),
        ("latchwork_acquires_total{engine=memory,outcome=nested}", 1),
        ("latchwork_acquires_total{engine=memory,outcome=busy}", 1),
        ("latchwork_acquires_total{engine=memory,outcome=timed_out}", 1),
        ("latchwork_acquires_total{engine=memory,outcome=cancelled}", 1),
        ("latchwork_acquires_total{engine=memory,outcome=failed}", 1),
        ("latchwork_wait_seconds{engine=memory}", 5),
        ("latchwork_hold_seconds{engine=memory}", 4),
        ("latchwork_renewals_total{engine=memory,outcome=kept}", 2),
        ("latchwork_renewals_total{engine=memory,outcome=failed}", 1),
        ("latchwork_renewals_total{engine=memory,outcome=refused}", 1),
        ("latchwork_losses_total{engine=memory,reason=removed}", 1),
        ("latchwork_janitor_total{engine=memory,outcome=given back}", 1),
    ] {
        assert!(counted.get(line).is_some_and(|count| *count >= least), "{line}: {counted:#?}");
    }
    assert_eq!(
        counted["latchwork_janitor_total{engine=memory,outcome=given back}"], 1,
        "one had to be repeated"
    );
    assert_eq!(counted["latchwork_losses_total{engine=memory,reason=removed}"], 1, "a release is no loss");
    assert!(!counted.keys().any(|line| line.contains("canary")), "a lock's name must not become a label");
    let told = diary.0.lock().expect("no panic").join("\n");
    for line in
        ["span acquire lock=\"canary-lock\"", "acquired", "acquire cancelled", "WARN", "lost: ", "let go"]
    {
        assert!(told.contains(line), "{line:?} in\n{told}");
    }
}
