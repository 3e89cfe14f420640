//! What session locks stand on: a statement that takes a lock and one that gives it back, prepared.

mod mariadb;
mod postgres;
mod statements;

use std::sync::Arc;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

pub(crate) use self::statements::statements;
use crate::Result;
use crate::args::Job;
use crate::contend::AsyncLock;
use crate::plan::Side;

/// Longer than any round.
const PATIENCE: &str = "60";

/// One lock on one connection, with requests that were written before.
pub(crate) struct Pair {
    wire: Arc<Mutex<Wire>>,
    take: Vec<u8>,
    give: Vec<u8>,
}

struct Wire {
    stream: BufReader<TcpStream>,
    /// What MariaDB calls its statements; PostgreSQL's have names.
    numbers: Option<[u32; 2]>,
}

/// The locks of this process's tasks: on one connection if they only try, on one each if they wait in the server.
pub(crate) async fn pairs(job: &Job) -> Result<Vec<Pair>> {
    let waits = job.side == Side::SessionBlocks;
    let mut pairs: Vec<Pair> = Vec::new();
    for task in 0..job.workload.tasks() {
        let shared = pairs.first().filter(|_| !waits).map(|first| first.wire.clone());
        let wire = match shared {
            Some(wire) => wire,
            None => Arc::new(Mutex::new(Wire::open(job, waits).await?)),
        };
        // Every task's lock, if it is one for all of them.
        let number = if job.workload.lock_name(task) == job.workload.lock_name(0) { 0 } else { task };
        let numbers = wire.lock().await.numbers;
        let (take, give) = match numbers {
            None => postgres::requests(number),
            Some(numbers) => mariadb::requests(numbers, number, if waits { PATIENCE } else { "0" }),
        };
        pairs.push(Pair { wire, take, give });
    }
    Ok(pairs)
}

impl Wire {
    async fn open(job: &Job, waits: bool) -> Result<Self> {
        if job.url()?.starts_with("postgres") {
            return Ok(Self { stream: postgres::connect(job, waits).await?, numbers: None });
        }
        let (stream, numbers) = mariadb::connect(job).await?;
        Ok(Self { stream, numbers: Some(numbers) })
    }

    /// Whether the server says yes.
    async fn ask(&mut self, request: &[u8]) -> Result<bool> {
        self.stream.get_mut().write_all(request).await?;
        match self.numbers {
            None => postgres::answer(&mut self.stream).await,
            Some(_) => mariadb::answer(&mut self.stream).await,
        }
    }
}

impl AsyncLock for Pair {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        match self.wire.lock().await.ask(&self.take).await? {
            true => Ok(()),
            false => Err("the floor's lock is taken".into()),
        }
    }

    async fn release(&self, (): ()) -> Result<()> {
        match self.wire.lock().await.ask(&self.give).await? {
            true => Ok(()),
            false => Err("the floor's release freed nothing".into()),
        }
    }
}
