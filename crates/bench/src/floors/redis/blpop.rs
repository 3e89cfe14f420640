//! A bare hand-over by the server: one element in a list, which `BLPOP` takes and `LPUSH` gives to the client
//! that has waited longest. There is no lease and no token.

use redis::Cmd;

use super::connection::RedisConnection;
use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// One contender. Each has a connection of its own, because a blocked connection cannot send other commands.
pub(crate) struct Blpop {
    connection: RedisConnection,
    take: Cmd,
    give: Cmd,
}

/// The contenders of this process. The first process pushes the element.
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
