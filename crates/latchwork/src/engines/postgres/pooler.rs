//! Whether a pooler stands between a client and the server. Behind one, a statement that was prepared and a channel that is listened
//! on belong to somebody else the next moment.

use tokio::io::AsyncReadExt;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A request to cancel: its length, its code, the number of the server's process, a secret.
const CANCEL: usize = 16;

/// Whether the process that answers is another than the one that greeted: a pooler makes that number up.
pub(super) async fn is_between(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let greeted = greeter(client).await;
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    let answered = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    Ok(greeted.is_none() || greeted != answered)
}

/// The number of the process that greeted. The driver tells it only to those who want to cancel something.
async fn greeter(client: &Client) -> Option<i32> {
    let (mut here, there) = tokio::io::duplex(64);
    client.cancel_token().cancel_query_raw(there, NoTls).await.ok()?;
    let mut request = Vec::new();
    here.read_to_end(&mut request).await.ok()?;
    let request = request.last_chunk::<CANCEL>()?;
    Some(i32::from_be_bytes(request[8..12].try_into().ok()?))
}
