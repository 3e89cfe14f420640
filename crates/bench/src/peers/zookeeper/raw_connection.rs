//! The ephemeral node as bytes on a socket of the caller's runtime, without any client. It sends no
//! heartbeats and has no watches.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EPHEMERAL: i32 = 1;
const ALL_RIGHTS: i32 = 31;
const ANY_VERSION: i32 = -1;

/// One connection, with its two requests encoded in advance.
pub(crate) struct RawConnection {
    stream: Mutex<TcpStream>,
    create: Vec<u8>,
    delete: Vec<u8>,
}

pub(crate) async fn raw_connections(job: &WorkerJob) -> Result<Vec<RawConnection>> {
    // Creates the parents.
    let _ = super::session(job).await?;
    let mut raw_connections = Vec::new();
    for task in 0..job.workload.tasks() {
        let stream = open(super::address(job)?).await?;
        let path = format!("{}/raw", super::parent(job, task));
        let rights = [&int(1)[..], &int(ALL_RIGHTS), &text(b"world"), &text(b"anyone")].concat();
        let create = [&text(path.as_bytes())[..], &text(super::DATA), &rights, &int(EPHEMERAL)].concat();
        let delete = [&text(path.as_bytes())[..], &int(ANY_VERSION)].concat();
        let stream = Mutex::new(stream);
        raw_connections.push(RawConnection {
            stream,
            create: request(CREATE, &create),
            delete: request(DELETE, &delete),
        });
    }
    Ok(raw_connections)
}

/// A connection whose session is open.
async fn open(address: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let timeout = super::SESSION.as_millis() as i32;
    // Version, newest transaction seen, timeout, no session yet, and no password of one.
    let connect_request = [&int(0)[..], &[0; 8], &int(timeout), &[0; 8], &text(&[0; 16]), &[0]].concat();
    stream.write_all(&text(&connect_request)).await?;
    receive(&mut stream).await?;
    Ok(stream)
}

impl RawConnection {
    async fn send(&self, request: &[u8]) -> Result<()> {
        let mut stream = self.stream.lock().await;
        stream.write_all(request).await?;
        let reply = receive(&mut stream).await?;
        // Behind the number of the request and that of the transaction.
        match reply.get(12..16) {
            Some([0, 0, 0, 0]) => Ok(()),
            code => Err(format!("the server refuses: {code:?}").into()),
        }
    }
}

async fn receive(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut received = Vec::with_capacity(512);
    loop {
        if let Some((length, reply)) = received.split_first_chunk()
            && reply.len() >= u32::from_be_bytes(*length) as usize
        {
            return Ok(reply.to_vec());
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err("the server closed the connection".into());
        }
    }
}

/// Every request has the same number: there is never more than one.
fn request(code: i32, body: &[u8]) -> Vec<u8> {
    text(&[&int(1)[..], &int(code), body].concat())
}

fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

/// Behind its length.
fn text(bytes: &[u8]) -> Vec<u8> {
    [&int(bytes.len() as i32)[..], bytes].concat()
}

impl AsyncLock for RawConnection {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        self.send(&self.create).await
    }

    async fn release(&self, (): ()) -> Result<()> {
        self.send(&self.delete).await
    }
}
