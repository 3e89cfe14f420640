//! Many readers are told of a change: configuration in a cell, which nobody has set when the readers start.
//!
//! `cargo run --example config_watch -- sqlite:/tmp/locks.db`; without an argument, `memory:`.

use latchwork::Result;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = latchwork::connect(&url).await?;
    let config = client.cell("example/config");
    config.delete().await?; // what an earlier run left behind

    let mut readers = tokio::task::JoinSet::new();
    for _ in 1..=10 {
        let mut states = config.watch();
        readers.spawn(async move {
            // The first state comes at once, also if the cell is not set yet; then each that follows it.
            loop {
                let now = states.next().await?;
                if now.text()? == Some("colour = green") {
                    return Ok::<_, latchwork::Error>(());
                }
            }
        });
    }

    config.set("colour = blue").await?;
    // Made of the very value that it replaces: another writer's change is never undone.
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
