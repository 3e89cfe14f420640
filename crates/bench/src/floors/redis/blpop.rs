//! A bare hand-over by the server: one element in a list, which `BLPOP` takes and `LPUSH` gives to who waits longest.
//! Nothing ends if a holder dies, and nothing is fenced.

use redis::Cmd;

use super::connection::RedisConnection;
use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// One contender: a connection that waits can do nothing else, so each has its own.
pub(crate) struct Blpop {
    connection: RedisConnection,
    take: Cmd,
    give: Cmd,
}

/// The contenders of this process. The first process puts the element there.
pub(crate) async fn blpop(job: &WorkerJob) -> Result<Vec<Blpop>> {
    let mut locks = Vec::new();
    for task in 0..job.workload.tasks() {
        let (connection, list) = (RedisConnection::open(job).await?, job.workload.lock_name(task));
        let (mut take, mut give) = (redis::cmd("BLPOP"), redis::cmd("LPUSH"));
        take.arg(&list).arg(0);
        give.arg(&list).arg("1");
        locks.push(Blpop { connection, take, give });
    }
    if job.index == 0
        && let Some(first) = locks.first()
    {
        first.connection.send(&first.give).await?;
    }
    Ok(locks)
}

impl AsyncLock for Blpop {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        self.connection.send(&self.take).await.map(drop)
    }

    async fn release(&self, (): ()) -> Result<()> {
        self.connection.send(&self.give).await.map(drop)
    }
}
