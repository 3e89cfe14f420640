//! Crate etcd-client: raw transactions and watches as floors, and etcd's own lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, LockOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse,
};
use tokio::sync::Mutex;

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// Longer than any round, so that no keep-alive is needed.
const TTL: i64 = 300;

/// One client with a lease, as each process has it.
struct Session {
    client: Client,
    lease: i64,
    drawn: AtomicU64,
}

async fn session(job: &WorkerJob) -> Result<Arc<Session>> {
    let address = job.url()?.trim_start_matches("etcd://").to_owned();
    let mut client = Client::connect([address], None).await?;
    let lease = client.lease_grant(TTL, None).await?.id();
    Ok(Arc::new(Session { client, lease, drawn: AtomicU64::new(0) }))
}

fn of_tasks<L>(job: &WorkerJob, lock: impl Fn(String) -> L) -> Vec<L> {
    (0..job.workload.tasks()).map(|task| lock(job.workload.lock_name(task))).collect()
}

/// A key that is put if it is absent.
pub(crate) struct RawTxn {
    session: Arc<Session>,
    name: String,
}

pub(crate) async fn txns(job: &WorkerJob) -> Result<Vec<RawTxn>> {
    let session = session(job).await?;
    Ok(of_tasks(job, |name| RawTxn { session: session.clone(), name }))
}

impl AsyncLock for RawTxn {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        let absent = Compare::create_revision(self.name.as_str(), CompareOp::Equal, 0);
        let put = PutOptions::new().with_lease(self.session.lease);
        let put = TxnOp::put(self.name.as_str(), "1", Some(put));
        let txn = Txn::new().when([absent]).and_then([put]);
        match self.session.client.kv_client().txn(txn).await?.succeeded() {
            true => Ok(()),
            false => Err("the raw transaction is for one that has no rival".into()),
        }
    }

    async fn release(&self, (): ()) -> Result<()> {
        self.session.client.kv_client().delete(self.name.as_str(), None).await?;
        Ok(())
    }
}

/// Keys in a queue.
pub(crate) struct RawQueue {
    session: Arc<Session>,
    name: String,
    /// One stream of watches for each task, which has one watch at a time.
    watching: Mutex<Option<(etcd_client::WatchStream, i64)>>,
}

pub(crate) async fn queues(job: &WorkerJob) -> Result<Vec<RawQueue>> {
    let session = session(job).await?;
    Ok(of_tasks(job, |name| RawQueue { session: session.clone(), name, watching: Mutex::new(None) }))
}

impl RawQueue {
    /// The one before `key`, if any.
    async fn before(&self, revision: i64) -> Result<Option<String>> {
        let newest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_max_create_revision(revision - 1)
            .with_limit(1);
        let found = self.session.client.kv_client().get(format!("{}/", self.name), Some(newest)).await?;
        Ok(found.kvs().first().and_then(|kv| Some(kv.key_str().ok()?.to_owned())))
    }

    /// Watches `key` from about now on.
    async fn watch(&self, key: &str) -> Result<()> {
        let mut watching = self.watching.lock().await;
        match &mut *watching {
            None => {
                let mut stream = self.session.client.watch_client().watch(key, None).await?;
                stream.message().await?;
                *watching = Some((stream, 1));
            }
            Some((stream, count)) => {
                *count += 1;
                stream.watch(key, None).await?;
                while stream.message().await?.is_some_and(|message| !message.created()) {}
            }
        }
        Ok(())
    }

    /// Until something happens to what is watched.
    async fn until_gone(&self) -> Result<()> {
        let mut watching = self.watching.lock().await;
        let (stream, _) = watching.as_mut().ok_or("nothing is watched")?;
        while stream.message().await?.is_some_and(|message| message.events().is_empty()) {}
        Ok(())
    }
}

impl AsyncLock for RawQueue {
    type Guard = String;

    async fn acquire(&self) -> Result<String> {
        let drawn = self.session.drawn.fetch_add(1, Ordering::Relaxed);
        let key = format!("{}/{:x}-{drawn}", self.name, self.session.lease);
        let put = PutOptions::new().with_lease(self.session.lease);
        let newest =
            GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(2);
        let queue = TxnOp::get(format!("{}/", self.name), Some(newest));
        let txn = Txn::new().and_then([TxnOp::put(key.as_str(), "", Some(put)), queue]);
        let answer = self.session.client.kv_client().txn(txn).await?;
        let revision = answer.header().ok_or("no header")?.revision();
        let mut before = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(found) => {
                found.kvs().iter().find(|kv| kv.key() != key.as_bytes())?.key_str().ok().map(str::to_owned)
            }
            _ => None,
        });
        while let Some(ahead) = before {
            self.watch(&ahead).await?;
            if self.before(revision).await?.is_some_and(|still| still == ahead) {
                self.until_gone().await?;
            }
            before = self.before(revision).await?;
        }
        Ok(key)
    }

    async fn release(&self, key: String) -> Result<()> {
        self.session.client.kv_client().delete(key, None).await?;
        Ok(())
    }
}

/// etcd's own lock.
pub(crate) struct EtcdLock {
    session: Arc<Session>,
    name: String,
}

pub(crate) async fn locks(job: &WorkerJob) -> Result<Vec<EtcdLock>> {
    // A lock of etcd's is the lease's: tasks that share one share the lock.
    let mut locks = Vec::new();
    for task in 0..job.workload.tasks() {
        locks.push(EtcdLock { session: session(job).await?, name: job.workload.lock_name(task) });
    }
    Ok(locks)
}

impl AsyncLock for EtcdLock {
    type Guard = Vec<u8>;

    async fn acquire(&self) -> Result<Vec<u8>> {
        let options = LockOptions::new().with_lease(self.session.lease);
        let locked = self.session.client.lock_client().lock(self.name.as_str(), Some(options)).await?;
        Ok(locked.key().to_vec())
    }

    async fn release(&self, key: Vec<u8>) -> Result<()> {
        self.session.client.lock_client().unlock(key).await?;
        Ok(())
    }
}
