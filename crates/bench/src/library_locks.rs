//! Latchwork's own side: a client of the library, as a program would use it.

use latchwork::{Guard, Lock};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;
use crate::plan::Engine;

impl AsyncLock for Lock {
    type Guard = Guard;

    async fn acquire(&self) -> Result<Guard> {
        Ok(Lock::acquire(self).await?)
    }

    async fn release(&self, guard: Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// The locks of this process's tasks, from one client that is warmed up.
pub(crate) async fn locks(job: &WorkerJob, engine: Engine) -> Result<Vec<Lock>> {
    let url = match engine {
        Engine::Memory => "memory:".to_owned(),
        Engine::Sqlite => format!("sqlite:{}", job.folder.join("locks.db").display()),
        Engine::Redis
        | Engine::Redlock
        | Engine::Memcached
        | Engine::Mariadb
        | Engine::Postgres
        | Engine::MariadbSession
        | Engine::PostgresSession
        | Engine::Etcd
        | Engine::Zookeeper => job.url()?.to_owned(),
    };
    let client = latchwork::connect(&url).await?;
    client.lock("bench/warm").acquire().await?.release().await?;
    let lock = |task| client.lock(job.workload.lock_name(task)).local_handoff(job.side.passes());
    Ok((0..job.workload.tasks()).map(lock).collect())
}
