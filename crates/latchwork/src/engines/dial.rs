//! Reaching a server by its name.

use std::io;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

/// Connects to whichever address of `host` answers first: one that is cut off must not hide the others.
///
/// # Errors
/// What the last one said.
pub(super) async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    let stream = match &addresses[..] {
        [address] => TcpStream::connect(address).await?,
        _ => {
            let mut attempts: JoinSet<_> = addresses.into_iter().map(TcpStream::connect).collect();
            first_to_answer(&mut attempts).await?
        }
    };
    // A request is one write: nothing is won by waiting for more.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn first_to_answer(attempts: &mut JoinSet<io::Result<TcpStream>>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "this name has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::other).flatten() {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_does_not_hide_one_that_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let open = listener.local_addr().expect("bound");
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let closed = taken.local_addr().expect("bound");
        drop(taken);
        let mut attempts: JoinSet<_> = [closed, open].into_iter().map(TcpStream::connect).collect();
        let stream = first_to_answer(&mut attempts).await.expect("one answers");
        assert_eq!(stream.peer_addr().expect("connected"), open);
        let mut attempts: JoinSet<_> = [closed].into_iter().map(TcpStream::connect).collect();
        let refused = first_to_answer(&mut attempts).await.expect_err("nobody is there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
