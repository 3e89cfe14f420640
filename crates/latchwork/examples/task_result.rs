//! One process waits until another has set the result.
//!
//! `cargo run --example task_result -- sqlite:/tmp/locks.db` waits; with a second argument, it sets the
//! result; without arguments, it does both on `memory:`.

use latchwork::{Client, Result, Version};

async fn wait_for_result(client: &Client) -> Result<String> {
    let mut states = client.cell("example/result").watch();
    loop {
        // Not set yet: wait for the next state.
        if let Some(result) = states.next().await?.text()? {
            return Ok(result.to_owned());
        }
    }
}

/// Only the first result counts.
async fn set_result(client: &Client, result: &str) -> Result<()> {
    client.cell("example/result").set_if(Version::ABSENT, result).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(url) = arguments.next() else {
        let client = latchwork::connect("memory:").await?;
        let (result, set) = tokio::join!(wait_for_result(&client), set_result(&client, "42"));
        set?;
        println!("the result is {}", result?);
        return Ok(());
    };
    let client = latchwork::connect(&url).await?;
    match arguments.next() {
        Some(result) => set_result(&client, &result).await?,
        None => println!("the result is {}", wait_for_result(&client).await?),
    }
    Ok(())
}
