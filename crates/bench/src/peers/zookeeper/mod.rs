//! A node that is created and deleted, and the lock of another client.

mod curator_lock;
mod node;
mod raw_connection;

pub(crate) use self::curator_lock::curator_locks;
pub(crate) use self::node::nodes;
pub(crate) use self::raw_connection::raw_connections;

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::Result;
use crate::args::WorkerJob;

/// Longer than any round takes between two requests.
const SESSION: Duration = Duration::from_secs(30);
/// As long as the data of the engine's nodes.
const DATA: &[u8; 64] = &[b'x'; 64];

fn address(job: &WorkerJob) -> Result<&str> {
    Ok(job.url()?.trim_start_matches("zookeeper://"))
}

/// Opens a session, one for each process, and creates the parent node of each lock.
async fn session(job: &WorkerJob) -> Result<Client> {
    let client = Client::connector().with_session_timeout(SESSION).connect(address(job)?).await?;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for task in 0..job.workload.tasks() {
        match client.mkdir(&parent(job, task), &options).await {
            Ok(()) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(client)
}

fn parent(job: &WorkerJob, task: u32) -> String {
    format!("/{}", job.workload.lock_name(task))
}
