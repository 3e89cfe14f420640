//! `OK_Packet`: a statement succeeded, and returned no rows.

use super::WireError;
use super::packet_reader::PacketReader;
use super::reply::Reply;

pub(super) const HEADER: u8 = 0x00;

/// # Errors
/// If it is cut short.
pub(super) fn ok_packet(payload: &[u8]) -> Result<Reply, WireError> {
    let mut reader = PacketReader(&payload[1..]);
    let (affected_rows, last_insert_id) = (reader.lenenc_int()?, reader.lenenc_int()?);
    Ok(Reply { matched: affected_rows, insert_id: last_insert_id, ..Reply::default() })
}
