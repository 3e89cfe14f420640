//! Names with special characters.

use super::SqlHarness;
use crate::harness::{SOON, take};

/// Names, notes and owners are values: each of these names is only a lock of its own.
pub async fn hostile_names_are_ordinary_names(harness: &impl SqlHarness) {
    let client = latchwork::connect(&harness.url())
        .await
        .expect("the process runs")
        .with_note("'; DROP TABLE latchwork_lock; --");
    let client = harness.recorder.client(client);
    let names = [
        "'; DROP TABLE latchwork_lock; --",
        "$1",
        "\\x00",
        "a",
        "A",
        "a ",
        "a  ",
        "\u{e4}",
        "a\u{308}",
        "%",
        "_",
        "{lock}",
    ];
    let mut guards = Vec::new();
    for name in names {
        let owner = format!("{name}' OR 1=1");
        guards.push(take(&client.lock(name).with(|lock| lock.owner(&owner))).await);
    }
    assert_eq!(
        harness.sql("SELECT count(*) FROM latchwork_lock WHERE id IS NOT NULL"),
        names.len().to_string()
    );
    for guard in guards {
        guard.release().await.expect("held");
    }
    harness.judge(&[client], SOON).await;
}
