//! The connection phase: handshake, TLS if the URL asks for it, authentication.

use std::sync::Arc;

use rustls::ClientConfig;
use tokio_rustls::TlsConnector;

use super::auth::{auth_response, clear_password};
use super::capabilities::{self, CLIENT_CONNECT_WITH_DB, CLIENT_DEPRECATE_EOF, CLIENT_SSL};
use super::err_packet::{self, err_packet};
use super::handshake_response_41::{handshake_response_41, ssl_request};
use super::handshake_v10::HandshakeV10;
use super::packet::{receive, send};
use super::packet_reader::{PacketReader, protocol_error};
use super::{WireError, ok_packet};
use crate::net::byte_stream::ByteStream;
use crate::net::tls::server_name;

/// `Protocol::AuthSwitchRequest`.
const AUTH_SWITCH_REQUEST: u8 = 0xfe;
/// `Protocol::AuthMoreData`.
const AUTH_MORE_DATA: u8 = 0x01;
/// Of `caching_sha2_password`: the server has this password in its cache.
const FAST_AUTH_SUCCESS: u8 = 0x03;
/// Of `caching_sha2_password`: the server needs the password itself.
const PERFORM_FULL_AUTHENTICATION: u8 = 0x04;

/// The address of a server, and the credentials of a user.
pub(in crate::engines::mysql) struct ConnectOptions {
    pub(in crate::engines::mysql) host: String,
    pub(in crate::engines::mysql) port: u16,
    pub(in crate::engines::mysql) user: String,
    pub(in crate::engines::mysql) password: String,
    pub(in crate::engines::mysql) database: String,
    pub(in crate::engines::mysql) tls: Option<Arc<ClientConfig>>,
}

/// Passes the connection phase. Returns the stream, encrypted if the URL asks for that, with nothing
/// outstanding.
///
/// # Errors
/// Why this user cannot use this server.
pub(super) async fn connection_phase(
    login: &ConnectOptions,
    mut stream: Box<dyn ByteStream>,
) -> Result<(Box<dyn ByteStream>, HandshakeV10), WireError> {
    let (packet, mut sequence_id) = receive(&mut *stream).await?;
    let handshake = HandshakeV10::parse(&packet)?;
    let mut capabilities = capabilities::REQUESTED | handshake.capabilities & CLIENT_DEPRECATE_EOF;
    if !login.database.is_empty() {
        capabilities |= CLIENT_CONNECT_WITH_DB;
    }
    if let Some(tls) = &login.tls {
        if handshake.capabilities & CLIENT_SSL == 0 {
            let why = "the server does not speak TLS; mysql:// or mariadb:// in the URL sends everything unencrypted";
            return Err(WireError::Unable(why.to_owned()));
        }
        capabilities |= CLIENT_SSL;
        sequence_id = sequence_id.wrapping_add(1);
        send(&mut *stream, sequence_id, &ssl_request(capabilities)).await?;
        let name = server_name(&login.host)?;
        stream = Box::new(TlsConnector::from(tls.clone()).connect(name, stream).await?);
    }
    let is_encrypted = login.tls.is_some();
    // A plugin that this client lacks is no reason to give up: the server may have another for this user.
    let plugin = &handshake.auth_plugin_name[..];
    let response =
        auth_response(plugin, login.password.as_bytes(), &handshake.auth_plugin_data, is_encrypted);
    let (plugin, response) = match response {
        Ok(response) if plugin != b"mysql_clear_password" => (plugin, response),
        _ => (&b"mysql_native_password"[..], Vec::new()),
    };
    let response = handshake_response_41(capabilities, &login.user, &response, &login.database, plugin);
    send(&mut *stream, sequence_id.wrapping_add(1), &response).await?;
    authenticate(&mut *stream, login).await?;
    Ok((stream, handshake))
}

/// Answers until the server accepts the user.
async fn authenticate(stream: &mut dyn ByteStream, login: &ConnectOptions) -> Result<(), WireError> {
    let (password, is_encrypted) = (login.password.as_bytes(), login.tls.is_some());
    loop {
        let (packet, sequence_id) = receive(stream).await?;
        match packet.split_first() {
            Some((&ok_packet::HEADER, _)) => return Ok(()),
            Some((&err_packet::HEADER, rest)) => return Err(err_packet(rest)?),
            Some((&AUTH_SWITCH_REQUEST, rest)) => {
                let mut rest = PacketReader(rest);
                let (plugin, nonce) = (rest.null_terminated(), rest.0);
                let nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce);
                let response = auth_response(plugin, password, nonce, is_encrypted)?;
                send(stream, sequence_id.wrapping_add(1), &response).await?;
            }
            Some((&AUTH_MORE_DATA, [FAST_AUTH_SUCCESS])) => {}
            Some((&AUTH_MORE_DATA, [PERFORM_FULL_AUTHENTICATION])) if is_encrypted => {
                send(stream, sequence_id.wrapping_add(1), &clear_password(password)).await?;
            }
            Some((&AUTH_MORE_DATA, [PERFORM_FULL_AUTHENTICATION])) => {
                let why = "the server asks for this user's password itself (caching_sha2_password), which is sent by TLS \
                           only: write +tls in the scheme of the URL";
                return Err(WireError::Unable(why.to_owned()));
            }
            _ => return Err(protocol_error()),
        }
    }
}
