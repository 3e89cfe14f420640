//! Many readers follow the configuration in a cell, which is not set when they start.
//!
//! `cargo run --example config_watch -- sqlite:/tmp/locks.db`; without an argument, `memory:`.

use latchwork::Result;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = latchwork::connect(&url).await?;
    let config = client.cell("example/config");
    config.delete().await?; // the value of an earlier run

    let mut readers = tokio::task::JoinSet::new();
    for _ in 1..=10 {
        let mut states = config.watch();
        readers.spawn(async move {
            // The first state is returned at once, also if the cell is not set yet; then each later one.
            loop {
                let now = states.next().await?;
                if now.text()? == Some("colour = green") {
                    return Ok::<_, latchwork::Error>(());
                }
            }
        });
    }

    config.set("colour = blue").await?;
    // Computed from exactly the value that it replaces: the change of another writer is never undone.
    let text = |old: Option<&[u8]>| String::from_utf8_lossy(old.unwrap_or_default()).into_owned();
    config.update(|old| text(old).replace("blue", "green").into()).await?;
    let mut told = 0;
    while let Some(reader) = readers.join_next().await {
        reader.expect("no panic")?;
        told += 1;
    }
    println!("{told} readers were told: colour = green");
    client.close().await
}
