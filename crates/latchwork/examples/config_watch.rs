//! Many readers are told of a change: configuration in a cell.
//!
//! `cargo run --example config_watch -- sqlite:/tmp/locks.db`; without an argument, `memory:`.

use latchwork::Result;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = latchwork::connect(&url).await?;
    let config = client.cell("example/config");
    config.update(|_| b"colour = blue".to_vec()).await?;

    let mut readers = tokio::task::JoinSet::new();
    for number in 1..=10 {
        let mut changes = config.watch();
        readers.spawn(async move {
            // The first value comes at once, and then each that follows it.
            while let Some(now) = changes.next().await? {
                if now.value == b"colour = green" {
                    return Ok::<_, latchwork::Error>(number);
                }
            }
            Ok(0)
        });
    }

    // Made of the very value that it replaces: another writer's change is never undone.
    config
        .update(|old| String::from_utf8_lossy(old.unwrap_or_default()).replace("blue", "green").into())
        .await?;
    let mut told = 0;
    while let Some(reader) = readers.join_next().await {
        told += u32::from(reader.expect("no panic")? > 0);
    }
    println!("{told} readers were told: colour = green");
    Ok(())
}
