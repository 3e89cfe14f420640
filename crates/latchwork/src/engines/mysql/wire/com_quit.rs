//! `COM_QUIT`: the client ends the connection.

/// The whole packet. Without it, the server counts the connection as aborted (`Aborted_clients`).
pub(super) const COM_QUIT: &[u8] = &[1, 0, 0, 0, 0x01];
