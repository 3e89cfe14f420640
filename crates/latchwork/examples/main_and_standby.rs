//! Main and standby: the standby takes over as soon as the main is gone.
//!
//! `cargo run --example main_and_standby -- sqlite:/tmp/locks.db`; without an argument, `memory:`.
#![allow(clippy::disallowed_methods, reason = "the work of the example takes time")]

use std::time::Duration;

use latchwork::{Client, Result};

/// Waits until it leads, serves for a moment, and resigns.
async fn serve(client: Client, name: &str) -> Result<u64> {
    let election = client.election("example/service").ttl(Duration::from_secs(2));
    let leading = election.campaign(name).await?;
    let term = leading.term();
    leading
        .run(async |_held| {
            println!("{name} serves in term {term}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok::<_, latchwork::Error>(term)
        })
        .await
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = latchwork::connect(&url).await?;
    let mut leaders = client.election("example/service").observe();
    let (main, standby) =
        (tokio::spawn(serve(client.clone(), "main")), tokio::spawn(serve(client.clone(), "standby")));
    let terms = [main.await.expect("no panic")?, standby.await.expect("no panic")?];
    let last = terms[0].max(terms[1]);
    while leaders.next().await?.term < last {}
    println!("terms only rise: {}", terms[0] != terms[1]);
    client.close().await
}
