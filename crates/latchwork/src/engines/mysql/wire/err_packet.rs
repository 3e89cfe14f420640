//! `ERR_Packet`: the server refused.

use super::WireError;
use super::packet_reader::PacketReader;

pub(super) const HEADER: u8 = 0xff;

/// Parses what follows the header: error code, SQL state, error message.
///
/// # Errors
/// If it is cut short.
pub(super) fn err_packet(rest: &[u8]) -> Result<WireError, WireError> {
    let mut reader = PacketReader(rest);
    let code = reader.fixed_int(2)? as u16;
    let message = match reader.0.split_first() {
        Some((b'#', rest)) => rest.get(5..).unwrap_or_default(),
        _ => reader.0,
    };
    Ok(WireError::Refused { code, words: String::from_utf8_lossy(message).into_owned() })
}
