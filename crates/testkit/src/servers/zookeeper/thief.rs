//! Ends somebody else's session, as if it had not given a sign of life for too long. No client would: it needs the
//! session's password, which the server makes from the session's number in a way that is known.

use std::io::{Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What the server mixes with the number.
const SECRET: i64 = 0xB341_5C00;
const CLOSE: i32 = -11;
const PATIENCE: Duration = Duration::from_secs(5);

/// Goes on with the session through a connection of its own and ends it, in one write: its owner would be back at once.
///
/// # Errors
/// If the server does not answer.
pub(super) fn end_session(server: SocketAddr, session: i64) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let timeout: i32 = 10_000;
    let mut hello = Vec::new();
    hello.extend(0_i32.to_be_bytes());
    hello.extend(0_i64.to_be_bytes());
    hello.extend(timeout.to_be_bytes());
    hello.extend(session.to_be_bytes());
    hello.extend(16_i32.to_be_bytes());
    hello.extend(password(session));
    hello.push(0);
    let goodbye = [1_i32.to_be_bytes(), CLOSE.to_be_bytes()].concat();
    let framed = [hello, goodbye].map(|part| [&(part.len() as i32).to_be_bytes()[..], &part].concat());
    stream.write_all(&framed.concat())?;
    // The server closes the connection when it is done.
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// As `java.util.Random` fills sixteen bytes, four at a time.
fn password(session: i64) -> [u8; 16] {
    const STEP: u64 = 0x5_DEEC_E66D;
    const BITS: u64 = (1 << 48) - 1;
    let mut seed = ((session ^ SECRET) as u64 ^ STEP) & BITS;
    let mut password = [0; 16];
    for four in password.chunks_mut(4) {
        seed = seed.wrapping_mul(STEP).wrapping_add(0xB) & BITS;
        four.copy_from_slice(&((seed >> 16) as u32).to_le_bytes());
    }
    password
}
