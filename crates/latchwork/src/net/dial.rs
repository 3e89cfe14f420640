//! Connects to a host by its name.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::deadline::NEXT_ADDRESS;

/// Connects to the first address of `host` that answers. An address that is cut off does not hide the others.
///
/// # Errors
/// The error of the last address.
pub(crate) async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    let stream = match &addresses[..] {
        [address] => TcpStream::connect(address).await?,
        addresses => first_to_answer(addresses).await?,
    };
    // A request is one write, so Nagle's algorithm would only delay it.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Tries the addresses in their order, the next one beside those that are silent. All at once would lead the
/// connections of one client to different servers, and some servers count an abandoned connection as an error
/// of this host.
async fn first_to_answer(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "this name has no address");
    let (mut left, mut attempts) = (addresses.iter(), JoinSet::new());
    loop {
        if let Some(address) = left.next() {
            attempts.spawn(TcpStream::connect(*address));
        }
        let limit = if left.len() > 0 { NEXT_ADDRESS } else { Duration::MAX };
        match timeout(limit, attempts.join_next()).await {
            Err(_silent) => {}
            Ok(None) => return Err(last),
            Ok(Some(attempt)) => match attempt.map_err(io::Error::other).flatten() {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    async fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    #[tokio::test]
    async fn an_address_that_refuses_does_not_hide_one_that_answers() {
        let (_open, open) = listen().await;
        let (taken, closed) = listen().await;
        drop(taken);
        let stream = first_to_answer(&[closed, open]).await.expect("one answers");
        assert_eq!(stream.peer_addr().expect("connected"), open);
        let refused = first_to_answer(&[closed, closed]).await.expect_err("nobody is there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(first_to_answer(&[]).await.expect_err("no address").kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_silent_address_does_not_hide_one_that_answers() {
        let (_open, open) = listen().await;
        let full = TcpSocket::new_v4().expect("a socket");
        full.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let full = full.listen(1).expect("bound");
        let silent = full.local_addr().expect("bound");
        // These are never accepted, and when the queue is full the address is silent.
        let mut queued = Vec::new();
        while let Ok(stream) = timeout(NEXT_ADDRESS, TcpStream::connect(silent)).await {
            queued.push(stream.expect("there is room"));
        }
        let stream = first_to_answer(&[silent, open]).await.expect("one answers");
        assert_eq!(stream.peer_addr().expect("connected"), open);
    }

    #[tokio::test]
    async fn the_second_address_is_not_tried_while_the_first_answers() {
        let ((_first, first), (second, other)) = (listen().await, listen().await);
        for _ in 0..20 {
            let stream = first_to_answer(&[first, other]).await.expect("both answer");
            assert_eq!(stream.peer_addr().expect("connected"), first);
        }
        assert!(timeout(NEXT_ADDRESS, second.accept()).await.is_err(), "the second address was tried");
    }
}
