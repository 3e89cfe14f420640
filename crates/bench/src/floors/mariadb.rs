//! The floor of the MariaDB engine: its own two prepared statements, as bytes on a socket, without any
//! client.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

const CLAIM: &str = include_str!("../../../latchwork/src/engines/mysql/sql/claim_uncontended.sql");
const RELEASE: &str = include_str!("../../../latchwork/src/engines/sql/release_uncontended.sql");
/// As in the engine's statements.rs.
const NOW_EXPRESSION: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";
const TTL: i64 = 30_000_000;
/// As the engine's, without a password: CLIENT_LONG_PASSWORD, CLIENT_FOUND_ROWS, CLIENT_LONG_FLAG,
/// CLIENT_CONNECT_WITH_DB, CLIENT_PROTOCOL_41, CLIENT_TRANSACTIONS, CLIENT_SECURE_CONNECTION,
/// CLIENT_PLUGIN_AUTH.
const CLIENT_CAPABILITIES: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
const QUERY: u8 = 0x03;
pub(super) const PREPARE: u8 = 0x16;
pub(super) const EXECUTE: u8 = 0x17;

/// One lock of one connection.
pub(crate) struct MariadbRowLock {
    connection: Arc<Mutex<MariadbConnection>>,
    name: Vec<u8>,
    id: Vec<u8>,
}

struct MariadbConnection {
    stream: BufReader<TcpStream>,
    claim: Prepared,
    release: Prepared,
}

/// A statement's id, and the index of the value for each of its placeholders.
struct Prepared {
    number: u32,
    order: Vec<usize>,
}

/// The locks of this process's tasks, on one connection, in the tables that the engine created.
pub(crate) async fn row_locks(job: &WorkerJob) -> Result<Vec<MariadbRowLock>> {
    let client = latchwork::connect(job.url()?).await?;
    let mut stream = connect(job).await?;
    for setting in ["SET time_zone = '+00:00'", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"] {
        send(&mut stream, 0, &[&[QUERY], setting.as_bytes()].concat()).await?;
        receive(&mut stream).await?;
    }
    let (claim, release) = (prepare(&mut stream, CLAIM).await?, prepare(&mut stream, RELEASE).await?);
    let connection = Arc::new(Mutex::new(MariadbConnection { stream, claim, release }));
    let mut pairs = Vec::new();
    for task in 0..job.workload.tasks() {
        let name = job.workload.lock_name(task);
        // The first use creates the row.
        client.lock(name.as_str()).acquire().await?.release().await?;
        let id = u128::from(job.index + task + 1).to_be_bytes().to_vec();
        pairs.push(MariadbRowLock { connection: connection.clone(), name: name.into_bytes(), id });
    }
    Ok(pairs)
}

pub(super) async fn connect(job: &WorkerJob) -> Result<BufReader<TcpStream>> {
    let address = job.url()?.split(['@', '/']).nth(3).ok_or("mariadb://user@host:port/database")?;
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.get_ref().set_nodelay(true)?;
    receive(&mut stream).await?;
    let mut handshake_response = CLIENT_CAPABILITIES.to_le_bytes().to_vec();
    handshake_response.extend(0x100_0000_u32.to_le_bytes());
    handshake_response.push(45);
    handshake_response.extend([0; 23]);
    handshake_response.extend(b"owner\0\0locks\0mysql_native_password\0");
    send(&mut stream, 1, &handshake_response).await?;
    receive(&mut stream).await?;
    Ok(stream)
}

async fn prepare(stream: &mut BufReader<TcpStream>, text: &str) -> Result<Prepared> {
    let text: String = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ");
    let text = text.replace("{lock}", "latchwork_lock").replace("{now}", NOW_EXPRESSION);
    let mut parts = text.split('$');
    let (mut words, mut order) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
    for part in parts {
        let (number, rest) = part.split_at(1);
        order.push(number.parse::<usize>()? - 1);
        words.push('?');
        words.push_str(rest);
    }
    send(stream, 0, &[&[PREPARE], words.as_bytes()].concat()).await?;
    let reply = receive(stream).await?;
    let number = u32::from_le_bytes(reply.get(1..5).ok_or("too short an reply")?.try_into()?);
    // The definitions of its parameters, and an EOF packet.
    for _ in 0..=order.len() {
        receive(stream).await?;
    }
    Ok(Prepared { number, order })
}

impl Prepared {
    /// Values are bytes, or the ttl. The last one, the owner, is NULL.
    fn with(&self, values: [Option<&[u8]>; 5]) -> Vec<u8> {
        let mut packet = vec![EXECUTE];
        packet.extend(self.number.to_le_bytes());
        packet.extend([0, 1, 0, 0, 0]);
        let is_ttl = |index: &&usize| **index == 2;
        let nulls = self.order.iter().enumerate().filter(|(_, index)| **index == 4);
        packet.push(nulls.map(|(index, _)| 1_u8 << index).sum());
        packet.push(1);
        let kinds = self.order.iter().map(|index| if is_ttl(&index) { [0x08, 0] } else { [0xfc, 0] });
        packet.extend(kinds.flatten());
        for index in self.order.iter().filter(|index| **index != 4) {
            match values[*index] {
                Some(bytes) => {
                    packet.push(bytes.len() as u8);
                    packet.extend(bytes);
                }
                None => packet.extend(TTL.to_le_bytes()),
            }
        }
        packet
    }
}

pub(super) async fn send(stream: &mut BufReader<TcpStream>, number: u8, payload: &[u8]) -> Result<()> {
    let mut packet = (payload.len() as u32).to_le_bytes();
    packet[3] = number;
    stream.get_mut().write_all(&[&packet, payload].concat()).await?;
    Ok(())
}

pub(super) async fn receive(stream: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let head = stream.read_u32_le().await?;
    let mut packet = vec![0; (head & 0xff_ffff) as usize];
    stream.read_exact(&mut packet).await?;
    match packet.first() {
        Some(0xff) => Err(String::from_utf8_lossy(&packet[3..]).into()),
        _ => Ok(packet),
    }
}

impl AsyncLock for MariadbRowLock {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        let MariadbConnection { stream, claim, .. } = &mut *self.connection.lock().await;
        let note = Some(&b"pid 12345 on host"[..]);
        send(stream, 0, &claim.with([Some(&self.name), Some(&self.id), None, note, None])).await?;
        match receive(stream).await?[..] {
            [0, 1, ..] => Ok(()),
            _ => Err("the floor's lock is taken".into()),
        }
    }

    async fn release(&self, (): ()) -> Result<()> {
        let MariadbConnection { stream, release, .. } = &mut *self.connection.lock().await;
        send(stream, 0, &release.with([Some(&self.name), Some(&self.id), None, None, None])).await?;
        receive(stream).await.map(drop)
    }
}
