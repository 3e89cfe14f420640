//! `GET_LOCK` and `RELEASE_LOCK`, as bytes on a socket.

use tokio::io::BufReader;
use tokio::net::TcpStream;

use super::super::mariadb::{self, EXECUTE, PREPARE, receive, send};
use crate::Result;
use crate::args::WorkerJob;

/// A connection, and the ids of its two statements.
pub(super) async fn connect(job: &WorkerJob) -> Result<(BufReader<TcpStream>, [u32; 2])> {
    let (mut stream, mut numbers) = (mariadb::connect(job).await?, [0; 2]);
    for (index, (text, values)) in
        [("SELECT GET_LOCK(?, ?)", 2), ("SELECT RELEASE_LOCK(?)", 1)].iter().enumerate()
    {
        send(&mut stream, 0, &[&[PREPARE], text.as_bytes()].concat()).await?;
        let reply = receive(&mut stream).await?;
        numbers[index] = u32::from_le_bytes(reply.get(1..5).ok_or("the reply is too short")?.try_into()?);
        // The definitions of its parameters and of its column, each followed by an EOF packet.
        for _ in 0..values + 3 {
            receive(&mut stream).await?;
        }
    }
    Ok((stream, numbers))
}

/// A name as long as the engine's.
pub(super) fn requests([take, give]: [u32; 2], number: u32, seconds: &str) -> (Vec<u8>, Vec<u8>) {
    let name = format!("{number:064x}");
    (execute(take, &[&name, seconds]), execute(give, &[&name]))
}

fn execute(statement: u32, values: &[&str]) -> Vec<u8> {
    let mut payload = vec![EXECUTE];
    payload.extend(statement.to_le_bytes());
    // No cursor, one iteration, no NULLs; the types follow.
    payload.extend([0, 1, 0, 0, 0, 0, 1]);
    payload.extend(values.iter().flat_map(|_| [0xfc, 0]));
    for value in values {
        payload.push(value.len() as u8);
        payload.extend(value.as_bytes());
    }
    let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
    packet.extend(payload);
    packet
}

/// The packets of the reply: column count, column definition, EOF, row, EOF.
pub(super) async fn read_reply(stream: &mut BufReader<TcpStream>) -> Result<bool> {
    for _ in 0..3 {
        receive(stream).await?;
    }
    let row = receive(stream).await?;
    receive(stream).await?;
    Ok(row.get(..3) == Some(&[0, 0, 1]))
}
