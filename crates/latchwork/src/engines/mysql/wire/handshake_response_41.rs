//! `Protocol::HandshakeResponse41` and `Protocol::SSLRequest`: what this client answers to the server's
//! handshake.

/// One more than the longest payload of a packet.
const MAX_PACKET_SIZE: u32 = 1 << 24;
/// The collation `utf8mb4_general_ci`, which every version knows.
const UTF8MB4_GENERAL_CI: u8 = 45;

/// `Protocol::SSLRequest`, which is the head of the other.
pub(super) fn ssl_request(capabilities: u32) -> Vec<u8> {
    let mut packet = capabilities.to_le_bytes().to_vec();
    packet.extend(MAX_PACKET_SIZE.to_le_bytes());
    packet.push(UTF8MB4_GENERAL_CI);
    packet.extend([0; 23]);
    packet
}

/// `Protocol::HandshakeResponse41`. Without `CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA`, the length of
/// `auth_response` is one byte: the longest is 32 bytes long.
pub(super) fn handshake_response_41(
    capabilities: u32,
    user: &str,
    auth_response: &[u8],
    database: &str,
    auth_plugin_name: &[u8],
) -> Vec<u8> {
    let mut packet = ssl_request(capabilities);
    packet.extend(user.as_bytes());
    packet.push(0);
    packet.push(auth_response.len() as u8);
    packet.extend(auth_response);
    if !database.is_empty() {
        packet.extend(database.as_bytes());
        packet.push(0);
    }
    packet.extend(auth_plugin_name);
    packet.push(0);
    packet
}
