//! The floors of session locks: prepared statements that acquire and release a lock.

mod mariadb;
mod postgres;
mod tokio_postgres;

use std::sync::Arc;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

pub(crate) use self::tokio_postgres::advisory_locks;
use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;
use crate::plan::Side;

/// Longer than any round.
const LOCK_TIMEOUT_SECONDS: &str = "60";

/// One lock on one connection, with requests that are encoded in advance.
pub(crate) struct SessionLock {
    connection: Arc<Mutex<SessionConnection>>,
    acquire: Vec<u8>,
    release: Vec<u8>,
}

struct SessionConnection {
    stream: BufReader<TcpStream>,
    /// The ids of MariaDB's statements. PostgreSQL's have names.
    numbers: Option<[u32; 2]>,
}

/// The locks of this process's tasks: on one connection if they only try, on one each if they wait in the
/// server.
pub(crate) async fn session_locks(job: &WorkerJob) -> Result<Vec<SessionLock>> {
    let waits = job.side == Side::SessionBlocks;
    let mut locks: Vec<SessionLock> = Vec::new();
    for task in 0..job.workload.tasks() {
        let shared = locks.first().filter(|_| !waits).map(|first| first.connection.clone());
        let connection = match shared {
            Some(connection) => connection,
            None => Arc::new(Mutex::new(SessionConnection::open(job, waits).await?)),
        };
        // One number if all tasks use one lock.
        let number = if job.workload.lock_name(task) == job.workload.lock_name(0) { 0 } else { task };
        let numbers = connection.lock().await.numbers;
        let (acquire, release) = match numbers {
            None => postgres::requests(number),
            Some(numbers) => {
                mariadb::requests(numbers, number, if waits { LOCK_TIMEOUT_SECONDS } else { "0" })
            }
        };
        locks.push(SessionLock { connection, acquire, release });
    }
    Ok(locks)
}

impl SessionConnection {
    async fn open(job: &WorkerJob, waits: bool) -> Result<Self> {
        if job.url()?.starts_with("postgres") {
            return Ok(Self { stream: postgres::connect(job, waits).await?, numbers: None });
        }
        let (stream, numbers) = mariadb::connect(job).await?;
        Ok(Self { stream, numbers: Some(numbers) })
    }

    /// Sends the request and returns the boolean of the reply.
    async fn query(&mut self, request: &[u8]) -> Result<bool> {
        self.stream.get_mut().write_all(request).await?;
        match self.numbers {
            None => postgres::read_reply(&mut self.stream).await,
            Some(_) => mariadb::read_reply(&mut self.stream).await,
        }
    }
}

impl AsyncLock for SessionLock {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        match self.connection.lock().await.query(&self.acquire).await? {
            true => Ok(()),
            false => Err("the floor's lock is taken".into()),
        }
    }

    async fn release(&self, (): ()) -> Result<()> {
        match self.connection.lock().await.query(&self.release).await? {
            true => Ok(()),
            false => Err("the floor's release freed nothing".into()),
        }
    }
}
