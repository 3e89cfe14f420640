//! Optimistic locking on a table of the application: two hundred buyers, fifty red packets, none sold twice.
//!
//! `cargo run --example red_packet -- /tmp/shop.db`; without an argument, a file that is deleted at the end.
//! With the version in the WHERE clause, `left_count` never falls below zero; without it, the buyers buy more
//! than there is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

const PACKETS: i64 = 50;
const BUYERS: usize = 200;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn open(path: &Path) -> Result<Connection> {
    let shop = Connection::open(path)?;
    shop.busy_timeout(Duration::from_secs(30))?;
    Ok(shop)
}

fn stock(shop: &Connection) -> Result<()> {
    shop.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; DROP TABLE IF EXISTS packet;
         CREATE TABLE packet (id INTEGER PRIMARY KEY, left_count INTEGER NOT NULL, version INTEGER NOT NULL);
         INSERT INTO packet VALUES (1, {PACKETS}, 0)"
    ))?;
    Ok(())
}

/// Reads value and version together. Time passes before they are used.
async fn read_stock(shop: &Connection) -> Result<(i64, i64)> {
    let row = shop.query_row("SELECT left_count, version FROM packet WHERE id = 1", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    tokio::task::yield_now().await;
    Ok(row)
}

/// Buys one packet; `false` if none is left.
async fn buy(shop: &Connection) -> Result<bool> {
    latchwork::optimistic(Duration::from_secs(60), async || {
        let (left, version) = read_stock(shop).await?;
        if left == 0 {
            return Ok(Some(false));
        }
        let sold = shop.execute(
            "UPDATE packet SET left_count = ?1, version = version + 1 WHERE id = 1 AND version = ?2",
            (left - 1, version),
        )?;
        // No row: another buyer was faster, and the values that were read are outdated.
        Ok((sold == 1).then_some(true))
    })
    .await
}

/// Buys one packet without the version: two buyers that read the same number sell the same packet.
async fn buy_carelessly(shop: &Connection) -> Result<bool> {
    let (left, _) = read_stock(shop).await?;
    if left == 0 {
        return Ok(false);
    }
    Ok(shop.execute("UPDATE packet SET left_count = ?1 WHERE id = 1", [left - 1])? == 1)
}

/// Lets all buyers buy. Returns the number of packets that they believe they bought, and the number that is
/// left.
async fn sell(path: &Path, carefully: bool) -> Result<(i64, i64)> {
    stock(&open(path)?)?;
    let tasks = tokio::task::LocalSet::new();
    let shops = (0..BUYERS).map(|_| open(path)).collect::<Result<Vec<_>>>()?;
    let buyers: Vec<_> = shops
        .into_iter()
        .map(|shop| {
            tasks.spawn_local(async move {
                match carefully {
                    true => buy(&shop).await,
                    false => buy_carelessly(&shop).await,
                }
            })
        })
        .collect();
    let bought = tasks.run_until(async {
        let mut bought = 0;
        for buyer in buyers {
            bought += i64::from(buyer.await??);
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(bought)
    });
    let bought = bought.await?;
    let left = open(path)?.query_row("SELECT left_count FROM packet", [], |row| row.get(0))?;
    Ok((bought, left))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let own = std::env::temp_dir().join(format!("red_packet-{}.db", std::process::id()));
    let path = std::env::args().nth(1).map_or_else(|| own.clone(), PathBuf::from);
    let (sold, left) = sell(&path, true).await?;
    println!("with the version:    {BUYERS} buyers, {PACKETS} packets, {sold} sold, {left} left");
    let (oversold, left_over) = sell(&path, false).await?;
    println!("without the version: {BUYERS} buyers, {PACKETS} packets, {oversold} sold, {left_over} left");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", own.display()));
    }
    assert_eq!((sold, left), (PACKETS, 0), "it sells exactly the stock");
    assert!(oversold > PACKETS, "without a version, the same packet is sold again and again");
    Ok(())
}
