//! `Protocol::Packet`: the length of the payload (3 bytes), the sequence id, the payload.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::WireError;
use crate::net::byte_stream::ByteStream;

pub(super) const HEADER_LENGTH: usize = 4;
/// A payload of this length continues in the next packet. This client neither sends nor accepts that.
pub(super) const MAX_PAYLOAD: usize = 0xff_ffff;

/// Adds a packet whose payload `put` adds. Returns false if it is too long, and adds nothing then.
pub(super) fn put_packet(out: &mut Vec<u8>, sequence_id: u8, put: impl FnOnce(&mut Vec<u8>)) -> bool {
    let begin = out.len();
    out.extend_from_slice(&[0, 0, 0, sequence_id]);
    put(out);
    let length = out.len() - begin - HEADER_LENGTH;
    if length >= MAX_PAYLOAD {
        out.truncate(begin);
        return false;
    }
    out[begin..begin + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    true
}

/// Takes the payload of the first packet, and advances `bytes` behind it. `None` if it has not arrived in
/// full.
///
/// # Errors
/// If it is too long.
pub(super) fn next_payload<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, WireError> {
    let Some((&[a, b, c, _sequence_id], rest)) = bytes.split_first_chunk::<HEADER_LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    if length == MAX_PAYLOAD {
        return Err(WireError::ended("a packet of more than 16 MB"));
    }
    let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    *bytes = rest;
    Ok(Some(payload))
}

/// Sends one packet while nothing else is outstanding.
pub(super) async fn send(
    stream: &mut dyn ByteStream,
    sequence_id: u8,
    payload: &[u8],
) -> Result<(), WireError> {
    let mut out = Vec::with_capacity(payload.len() + HEADER_LENGTH);
    put_packet(&mut out, sequence_id, |packet| packet.extend_from_slice(payload));
    stream.write_all(&out).await?;
    Ok(stream.flush().await?)
}

/// Receives one packet while nothing else is outstanding. Returns its payload and its sequence id.
pub(super) async fn receive(stream: &mut dyn ByteStream) -> Result<(Vec<u8>, u8), WireError> {
    let mut header = [0; HEADER_LENGTH];
    stream.read_exact(&mut header).await?;
    let [a, b, c, sequence_id] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload).await?;
    Ok((payload, sequence_id))
}
