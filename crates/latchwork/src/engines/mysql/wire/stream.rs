//! Packets on a stream of bytes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::WireError;
use crate::engines::sql::Stream;

/// A packet of this size goes on in the next one. Nothing of ours is that long.
const LONGEST: usize = 0xff_ffff;

/// Adds a packet: its length, its place in the exchange, what `put` adds. False if that is too long, and nothing was added.
pub(super) fn put_packet(out: &mut Vec<u8>, number: u8, put: impl FnOnce(&mut Vec<u8>)) -> bool {
    let head = out.len();
    out.extend_from_slice(&[0, 0, 0, number]);
    put(out);
    let length = out.len() - head - 4;
    if length >= LONGEST {
        out.truncate(head);
        return false;
    }
    out[head..head + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    true
}

/// How long the first packet of what has arrived is, with its head; `None`: it is not all there yet.
pub(super) fn packet_length(arrived: &[u8]) -> Result<Option<usize>, WireError> {
    let [a, b, c, _, rest @ ..] = arrived else { return Ok(None) };
    let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
    if length == LONGEST {
        return Err(WireError::Ended("a row of more than 16 MB".to_owned()));
    }
    Ok((rest.len() >= length).then_some(length + 4))
}

/// Sends one packet, while nothing else is under way.
pub(super) async fn send(stream: &mut dyn Stream, number: u8, payload: &[u8]) -> Result<(), WireError> {
    let mut out = Vec::with_capacity(payload.len() + 4);
    put_packet(&mut out, number, |packet| packet.extend_from_slice(payload));
    stream.write_all(&out).await?;
    Ok(stream.flush().await?)
}

/// Reads one packet, while nothing else is under way: the packet, and its place in the exchange.
pub(super) async fn receive(stream: &mut dyn Stream) -> Result<(Vec<u8>, u8), WireError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    let mut packet = vec![0; length];
    stream.read_exact(&mut packet).await?;
    Ok((packet, head[3]))
}
