//! A hostile server for every engine: it is placed in front of a real server, and sends replies that no
//! server should send.

mod attacks;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

pub use attacks::{Hostility, Protocol};

/// How long to wait for the client to send first. In some protocols the server sends first.
const FIRST_WORD: Duration = Duration::from_millis(50);

/// A listener that forwards everything to a real server, until it is switched to an attack.
pub struct Hostile {
    address: SocketAddr,
    state: Arc<AttackState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct AttackState {
    protocol: Protocol,
    back: SocketAddr,
    attack: Mutex<Option<Hostility>>,
    attacked: AtomicUsize,
}

impl Hostile {
    /// Listens on a free port of 127.0.0.1 for the server at `back`, on a thread of its own.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn before(back: SocketAddr, protocol: Protocol) -> Self {
        let state = Arc::new(AttackState {
            protocol,
            back,
            attack: Mutex::default(),
            attacked: AtomicUsize::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let (ready, listens) = mpsc::channel();
        let thread = std::thread::spawn({
            let state = state.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                    ready
                        .send(listener.local_addr().expect("bound"))
                        .expect("the caller waits for the address");
                    tokio::select! {
                        () = accept(&listener, &state) => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        let address = listens.recv().expect("the listener is ready");
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    /// The address for clients to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the attack. New connections are attacked at once, and open ones at their next request. `None`:
    /// everything is forwarded again, except on connections that were attacked.
    ///
    /// # Panics
    /// If the listener panicked.
    pub fn attack(&self, hostility: Option<Hostility>) {
        *self.state.attack.lock().expect("no panic") = hostility;
    }

    /// The number of connections attacked so far.
    pub fn attacked(&self) -> usize {
        self.state.attacked.load(Ordering::Relaxed)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the hostile server panicked");
        }
    }
}

impl AttackState {
    fn ordered(&self) -> Option<Hostility> {
        *self.attack.lock().expect("no panic")
    }
}

async fn accept(listener: &TcpListener, state: &Arc<AttackState>) {
    loop {
        if let Ok((client, _)) = listener.accept().await {
            let state = state.clone();
            // However this task ends, the client's connection is closed.
            tokio::spawn(async move { serve(client, &state).await });
        }
    }
}

async fn serve(mut client: TcpStream, state: &AttackState) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut heard = vec![0; 64 * 1024];
    if let Some(hostility) = state.ordered() {
        let first = tokio::time::timeout(FIRST_WORD, client.read(&mut heard)).await;
        let length = first.unwrap_or(Ok(0))?;
        return strike(client, state, hostility, &heard[..length], true).await;
    }
    let mut server = TcpStream::connect(state.back).await?;
    server.set_nodelay(true)?;
    let mut said = vec![0; 64 * 1024];
    loop {
        tokio::select! {
            length = client.read(&mut heard) => {
                let request = match length? {
                    0 => return Ok(()),
                    length => &heard[..length],
                };
                if let Some(hostility) = state.ordered() {
                    return strike(client, state, hostility, request, false).await;
                }
                server.write_all(request).await?;
            }
            length = server.read(&mut said) => match length? {
                0 => return Ok(()),
                length => client.write_all(&said[..length]).await?,
            },
        }
    }
}

/// Attacks in reply to this request, until the client closes the connection.
async fn strike(
    mut client: TcpStream,
    state: &AttackState,
    hostility: Hostility,
    request: &[u8],
    is_new: bool,
) -> std::io::Result<()> {
    state.attacked.fetch_add(1, Ordering::Relaxed);
    let (first, again) = hostility.bytes(state.protocol, request, is_new);
    client.write_all(&first).await?;
    let (mut reader, mut writer) = client.split();
    let mut sink = vec![0; 64 * 1024];
    let listen = async {
        while reader.read(&mut sink).await? > 0 {}
        Ok(())
    };
    let flood = async {
        while !again.is_empty() {
            writer.write_all(&again).await?;
        }
        std::future::pending().await
    };
    tokio::select! {
        ended = listen => ended,
        ended = flood => ended,
    }
}
