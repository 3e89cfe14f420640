//! `Protocol::HandshakeV10`: the first packet of a connection, sent by the server.

use super::WireError;
use super::capabilities::CLIENT_DEPRECATE_EOF;
use super::err_packet::{self, err_packet};
use super::packet_reader::{PacketReader, protocol_error};

const PROTOCOL_VERSION: u8 = 10;

/// The server's part of the handshake.
pub(in crate::engines::mysql) struct HandshakeV10 {
    pub(in crate::engines::mysql) server_version: String,
    /// The number by which `KILL` and the list of processes know this connection.
    pub(in crate::engines::mysql) thread_id: u32,
    pub(super) capabilities: u32,
    pub(super) auth_plugin_data: Vec<u8>,
    pub(super) auth_plugin_name: Vec<u8>,
}

impl HandshakeV10 {
    /// # Errors
    /// The server refuses the connection, or this is no handshake.
    pub(super) fn parse(packet: &[u8]) -> Result<Self, WireError> {
        let mut reader = PacketReader(packet);
        match reader.byte()? {
            PROTOCOL_VERSION => {}
            err_packet::HEADER => return Err(err_packet(reader.0)?),
            _ => return Err(protocol_error()),
        }
        let server_version = String::from_utf8_lossy(reader.null_terminated()).into_owned();
        let thread_id = reader.fixed_int(4)? as u32;
        let mut auth_plugin_data = reader.bytes(8)?.to_vec();
        let _filler = reader.byte()?;
        let capabilities_low = reader.fixed_int(2)? as u32;
        let _character_set_and_status = reader.bytes(3)?;
        let capabilities = capabilities_low | (reader.fixed_int(2)? as u32) << 16;
        let auth_plugin_data_length = reader.byte()?;
        let _reserved = reader.bytes(10)?;
        let second_part = reader.bytes(usize::from(auth_plugin_data_length).saturating_sub(8).max(13))?;
        auth_plugin_data.extend(second_part.strip_suffix(&[0]).unwrap_or(second_part));
        let auth_plugin_name = reader.null_terminated().to_vec();
        Ok(Self { server_version, thread_id, capabilities, auth_plugin_data, auth_plugin_name })
    }

    pub(super) fn deprecates_eof(&self) -> bool {
        self.capabilities & CLIENT_DEPRECATE_EOF != 0
    }
}
