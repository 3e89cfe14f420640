//! The floor of the memcached engine: `ms` in the mode of `add`, which returns a CAS id, then `md` with that
//! id, as bytes on a socket.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// As long as the value that the library stores: an id and a note.
const VALUE: &str = "000102030405060708090a0b0c0d0e0f\npid 12345 on benchmark";

/// One lock, on a connection of its own.
pub(crate) struct Meta {
    stream: Mutex<TcpStream>,
    name: String,
}

/// The locks of this process's tasks.
pub(crate) async fn meta(job: &WorkerJob) -> Result<Vec<Meta>> {
    let address = job.url()?.strip_prefix("memcached://").ok_or("another engine's URL")?;
    let mut locks = Vec::new();
    for task in 0..job.workload.tasks() {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let lock = Meta { stream: Mutex::new(stream), name: job.workload.lock_name(task) };
        lock.release(lock.acquire().await?).await?;
        locks.push(lock);
    }
    Ok(locks)
}

impl Meta {
    /// Sends a request and returns the reply, which is one line.
    async fn send(&self, request: &str) -> Result<String> {
        let mut stream = self.stream.lock().await;
        stream.write_all(request.as_bytes()).await?;
        let (mut reply, mut length) = ([0; 128], 0);
        while !reply[..length].ends_with(b"\r\n") {
            length += stream.read(&mut reply[length..]).await?;
        }
        Ok(String::from_utf8(reply[..length].to_vec())?)
    }
}

impl AsyncLock for Meta {
    type Guard = String;

    async fn acquire(&self) -> Result<String> {
        let reply = self.send(&format!("ms {} {} ME T32 c\r\n{VALUE}\r\n", self.name, VALUE.len())).await?;
        let cas = reply.trim_end().strip_prefix("HD c").ok_or("the floor's lock is taken")?;
        Ok(cas.to_owned())
    }

    async fn release(&self, cas: String) -> Result<()> {
        match self.send(&format!("md {} C{cas}\r\n", self.name)).await?.as_str() {
            "HD\r\n" => Ok(()),
            other => Err(format!("the floor's release freed nothing: {other:?}").into()),
        }
    }
}
