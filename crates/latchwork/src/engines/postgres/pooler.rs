//! Detects a pooler between a client and the server. A pooler may give the server connection, with its
//! prepared statements and its channels, to another client after each transaction.

use tokio::io::AsyncReadExt;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The length of a `CancelRequest`: length, code, process id and secret key, of 4 bytes each.
const CANCEL_REQUEST_LENGTH: usize = 16;
const PROCESS_ID: std::ops::Range<usize> = 8..12;

/// Whether the process that answers is not the one that the handshake named. A pooler invents that process
/// id.
pub(super) async fn is_between(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let named = process_id_of_handshake(client).await;
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    let answering = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    Ok(named.is_none() || named != answering)
}

/// The process id in the handshake. The driver reveals it only in a `CancelRequest`.
async fn process_id_of_handshake(client: &Client) -> Option<i32> {
    let (mut here, there) = tokio::io::duplex(64);
    client.cancel_token().cancel_query_raw(there, NoTls).await.ok()?;
    let mut request = Vec::new();
    here.read_to_end(&mut request).await.ok()?;
    let request = request.last_chunk::<CANCEL_REQUEST_LENGTH>()?;
    Some(i32::from_be_bytes(request[PROCESS_ID].try_into().ok()?))
}
