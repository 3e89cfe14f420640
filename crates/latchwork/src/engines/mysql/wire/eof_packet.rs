//! `EOF_Packet`, and the `OK_Packet` that replaces it with `CLIENT_DEPRECATE_EOF`: both end a list of rows.

const HEADER: u8 = 0xfe;

/// A row cannot begin with this byte: its first column would be longer than a packet.
pub(super) fn is_eof(payload: &[u8]) -> bool {
    payload.first() == Some(&HEADER)
}
