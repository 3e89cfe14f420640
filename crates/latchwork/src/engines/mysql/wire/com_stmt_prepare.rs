//! `COM_STMT_PREPARE` and `COM_STMT_PREPARE_OK`.

use super::WireError;
use super::packet_reader::{PacketReader, protocol_error};

pub(super) const COM_STMT_PREPARE: u8 = 0x16;

/// The number of a prepared statement on its connection. Its parameters are always sent apart from its text.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engines::mysql) struct StatementId(pub(super) u32);

/// Adds the payload.
pub(super) fn put_com_stmt_prepare(payload: &mut Vec<u8>, statement: &str) {
    payload.push(COM_STMT_PREPARE);
    payload.extend_from_slice(statement.as_bytes());
}

/// `COM_STMT_PREPARE_OK`, which is followed by a definition for each column and each parameter.
pub(super) struct ComStmtPrepareOk {
    pub(super) statement_id: StatementId,
    pub(super) num_columns: u32,
    pub(super) num_params: u32,
}

impl ComStmtPrepareOk {
    /// # Errors
    /// If it is another packet, or cut short.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = PacketReader(payload.strip_prefix(&[0]).ok_or_else(protocol_error)?);
        let statement_id = StatementId(reader.fixed_int(4)? as u32);
        let (num_columns, num_params) = (reader.fixed_int(2)? as u32, reader.fixed_int(2)? as u32);
        Ok(Self { statement_id, num_columns, num_params })
    }
}
