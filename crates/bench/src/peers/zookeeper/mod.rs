//! A node that is made and removed, and the lock of another client.

mod bytes;
mod create;
mod own_lock;

pub(crate) use self::bytes::connections;
pub(crate) use self::create::creates;
pub(crate) use self::own_lock::own_locks;

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::Result;
use crate::args::Job;

/// Longer than any round takes between two requests.
const SESSION: Duration = Duration::from_secs(30);
/// As long as what the engine writes into its nodes.
const DATA: &[u8; 64] = &[b'x'; 64];

fn place(job: &Job) -> Result<&str> {
    Ok(job.url()?.trim_start_matches("zookeeper://"))
}

/// One session, as each process has it; and the node that all of a lock's are below.
async fn session(job: &Job) -> Result<Client> {
    let client = Client::connector().with_session_timeout(SESSION).connect(place(job)?).await?;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for task in 0..job.workload.tasks() {
        match client.mkdir(&parent(job, task), &options).await {
            Ok(()) | Err(Error::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(client)
}

fn parent(job: &Job, task: u32) -> String {
    format!("/{}", job.workload.lock_name(task))
}
