//! Measures a lock of distributed-lock 0.2 on a database, with the protocol of the bench's children: a byte
//! when it is ready, and its samples after the start message.
//!
//! `sql-peers URL NAME MILLIS`

use std::io::{self, Write};
use std::time::Duration;

use distributed_lock_core::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_mysql::MySqlLockProvider;
use distributed_lock_postgres::PostgresLockProvider;
use nix::time::{ClockId, clock_gettime};

/// Longer than any round. MariaDB has no unlimited wait.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(name), Some(millis)) = (words.next(), words.next(), words.next()) else {
        return Err("sql-peers URL NAME MILLIS".into());
    };
    let length = millis.parse::<u64>()? * 1_000_000;
    // Options are Latchwork's.
    let url = url.split('?').next().unwrap_or_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        if url.starts_with("postgres") {
            return take_turns(PostgresLockProvider::new(url).await?, name, length).await;
        }
        let url = url.replacen("mariadb", "mysql", 1);
        take_turns(MySqlLockProvider::new(url).await?, name, length).await
    })
}

async fn take_turns<P: LockProvider>(provider: P, name: String, length: u64) -> Result<()>
where
    P::Lock: Send + Sync + 'static,
{
    let lock = provider.create_lock(&name);
    lock.acquire(PATIENCE).await?.release().await?;
    let mut home = io::stdout();
    home.write_all(b"!")?;
    home.flush()?;
    let mut start = String::new();
    io::stdin().read_line(&mut start)?;
    let start = start.trim().parse::<u64>()? * 1_000;
    std::thread::sleep(Duration::from_nanos(start.saturating_sub(now()?)));
    let turns = tokio::spawn(async move {
        let (mut turns, mut asked) = (Vec::with_capacity(1 << 16), 0);
        loop {
            let handle = lock.acquire(PATIENCE).await?;
            let acquired = now()? - start;
            handle.release().await?;
            turns.push([0, asked, acquired, acquired]);
            if acquired >= length {
                return Ok::<_, Box<dyn std::error::Error + Send + Sync>>(turns);
            }
            asked = now()? - start;
        }
    });
    let numbers = [0, 0].into_iter().chain(turns.await??.into_iter().flatten());
    home.write_all(&numbers.flat_map(u64::to_ne_bytes).collect::<Vec<_>>())?;
    Ok(home.flush()?)
}

fn now() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
