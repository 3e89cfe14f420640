//! Ends another client's session, as after a session timeout. No ordinary client can: it needs the session's
//! password. The server derives the password from the session's number in a known way.

use std::io::Result;
use std::net::SocketAddr;

use super::admin_connection;

/// The secret that the server mixes with the number.
const SECRET: i64 = 0xB341_5C00;

/// Ends a session through a connection of its own.
///
/// # Errors
/// If the server does not answer.
pub(super) fn end_session(server: SocketAddr, session: i64) -> Result<()> {
    admin_connection::end_session(server, session, &password(session))
}

/// Fills sixteen bytes as `java.util.Random` does, four at a time.
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
