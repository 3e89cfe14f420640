//! Advisory locks, as bytes on a socket.

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::Result;
use crate::args::WorkerJob;

pub(super) async fn connect(job: &WorkerJob, waits: bool) -> Result<BufReader<TcpStream>> {
    let mut words = job.url()?.split("://").nth(1).unwrap_or_default().split(['@', '/', '?']);
    let (Some(user), Some(address), Some(database)) = (words.next(), words.next(), words.next()) else {
        return Err("postgres://user@host:port/database".into());
    };
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.get_ref().set_nodelay(true)?;
    let mut startup = 196_608_u32.to_be_bytes().to_vec();
    startup.extend(format!("user\0{user}\0database\0{database}\0\0").as_bytes());
    let length = (startup.len() as u32 + 4).to_be_bytes();
    stream.get_mut().write_all(&[&length[..], &startup].concat()).await?;
    read_reply(&mut stream).await?;
    let take = if waits { "SELECT pg_advisory_lock($1)" } else { "SELECT pg_try_advisory_lock($1)" };
    let mut parse = Vec::new();
    for (name, text) in [("take", take), ("give", "SELECT pg_advisory_unlock($1)")] {
        // One value, an int8.
        let body = [name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\x01", &20_u32.to_be_bytes()].concat();
        put(&mut parse, b'P', &body);
    }
    put(&mut parse, b'S', b"");
    stream.get_mut().write_all(&parse).await?;
    read_reply(&mut stream).await?;
    Ok(stream)
}

pub(super) fn requests(number: u32) -> (Vec<u8>, Vec<u8>) {
    (execute("take", number), execute("give", number))
}

/// Bind, Execute and Sync, as drivers send them.
fn execute(statement: &str, number: u32) -> Vec<u8> {
    let mut request = Vec::new();
    let mut bind = [b"\0", statement.as_bytes(), b"\0"].concat();
    // One format for all values, binary; one value of eight bytes; one format for all columns, binary.
    bind.extend([0, 1, 0, 1, 0, 1, 0, 0, 0, 8]);
    bind.extend(u64::from(number).to_be_bytes());
    bind.extend([0, 1, 0, 1]);
    put(&mut request, b'B', &bind);
    put(&mut request, b'E', b"\0\0\0\0\0");
    put(&mut request, b'S', b"");
    request
}

fn put(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}

/// Reads messages until ReadyForQuery. Returns `false` for a row that contains false.
pub(super) async fn read_reply(stream: &mut BufReader<TcpStream>) -> Result<bool> {
    let mut is_yes = true;
    loop {
        let (kind, length) = (stream.read_u8().await?, stream.read_u32().await?);
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body).await?;
        match kind {
            b'Z' => return Ok(is_yes),
            b'E' => return Err(String::from_utf8_lossy(&body).into()),
            // One column of one byte.
            b'D' => is_yes = body != [0, 1, 0, 0, 0, 1, 0],
            _ => {}
        }
    }
}
