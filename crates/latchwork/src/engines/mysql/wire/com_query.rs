//! `COM_QUERY`: a statement as text.

pub(super) const COM_QUERY: u8 = 0x03;

/// Adds the payload. The statement has no parameters, so it must not contain text of other people.
pub(super) fn put_com_query(payload: &mut Vec<u8>, statement: &str) {
    payload.push(COM_QUERY);
    payload.extend_from_slice(statement.as_bytes());
}
