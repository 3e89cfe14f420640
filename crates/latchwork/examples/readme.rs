//! The program in README.md; a test compares the two.

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> latchwork::Result<()> {
    let client = latchwork::connect("redis://127.0.0.1/").await?; // or "sqlite:", "etcd://...", "postgres://..."
    let guard = client.lock("orders/42").wait(Duration::from_secs(5)).acquire().await?;
    println!("every write carries token {}", guard.token()?);
    guard.release().await // or drop it: the drop sends the release
}
