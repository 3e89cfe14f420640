//! How a connection begins: the server's greeting, TLS if it was asked for, who we are.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::WireError;
use super::auth::{in_the_clear, proof};
use super::bytes::{Reader, protocol_error};
use super::reply::{Ends, refusal};
use super::stream::{receive, send};
use crate::engines::sql::Stream;

/// Long passwords, matched rows are counted (not only changed ones), long flags, protocol 4.1, transactions, proofs by method.
const ABILITIES: u32 = 0x1 | 0x2 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
const WITH_DATABASE: u32 = 0x8;
const WITH_TLS: u32 = 0x800;
/// Lists of columns have no end of their own.
const WITHOUT_ENDS: u32 = 0x100_0000;
/// utf8mb4_general_ci, which every version knows.
const CHARACTERS: u8 = 45;

/// Where to, and as whom.
pub(in crate::engines::mysql) struct Login {
    pub(in crate::engines::mysql) host: String,
    pub(in crate::engines::mysql) port: u16,
    pub(in crate::engines::mysql) user: String,
    pub(in crate::engines::mysql) password: String,
    pub(in crate::engines::mysql) database: String,
    pub(in crate::engines::mysql) tls: Option<Arc<ClientConfig>>,
}

/// What the server says of itself.
pub(in crate::engines::mysql) struct Greeting {
    pub(in crate::engines::mysql) version: String,
    /// The number by which `KILL` and the list of processes know this connection.
    pub(in crate::engines::mysql) thread: u32,
    abilities: u32,
    /// Where lists of columns end, if that is not said.
    pub(super) ends: Ends,
    nonce: Vec<u8>,
    method: Vec<u8>,
}

/// Proves who we are.
pub(super) async fn begin(
    login: &Login,
    mut stream: Box<dyn Stream>,
) -> Result<(Box<dyn Stream>, Greeting), WireError> {
    let (packet, mut number) = receive(&mut *stream).await?;
    let greeting = greeting(&packet)?;
    let mut abilities = ABILITIES | greeting.abilities & WITHOUT_ENDS;
    if !login.database.is_empty() {
        abilities |= WITH_DATABASE;
    }
    if let Some(tls) = &login.tls {
        if greeting.abilities & WITH_TLS == 0 {
            let why = "the server does not speak TLS; mysql:// or mariadb:// in the URL sends everything in the clear";
            return Err(WireError::Unable(why.to_owned()));
        }
        abilities |= WITH_TLS;
        number = number.wrapping_add(1);
        send(&mut *stream, number, &head(abilities)).await?;
        let name =
            ServerName::try_from(login.host.clone()).map_err(|error| WireError::Ended(error.to_string()))?;
        stream = Box::new(TlsConnector::from(tls.clone()).connect(name, stream).await?);
    }
    let is_encrypted = login.tls.is_some();
    // A method that we cannot is no reason to give up: the server may have another for this user.
    let first = proof(&greeting.method, login.password.as_bytes(), &greeting.nonce, is_encrypted);
    let (method, first) = match first {
        Ok(first) if greeting.method != b"mysql_clear_password" => (&greeting.method[..], first),
        _ => (&b"mysql_native_password"[..], Vec::new()),
    };
    let mut response = head(abilities);
    response.extend(login.user.as_bytes());
    response.push(0);
    response.push(first.len() as u8);
    response.extend(first);
    if !login.database.is_empty() {
        response.extend(login.database.as_bytes());
        response.push(0);
    }
    response.extend(method);
    response.push(0);
    send(&mut *stream, number.wrapping_add(1), &response).await?;
    prove(&mut *stream, login).await?;
    Ok((stream, greeting))
}

/// Answers until the server is convinced.
async fn prove(stream: &mut dyn Stream, login: &Login) -> Result<(), WireError> {
    let (password, is_encrypted) = (login.password.as_bytes(), login.tls.is_some());
    loop {
        let (packet, number) = receive(stream).await?;
        match packet.split_first() {
            Some((0x00, _)) => return Ok(()),
            Some((0xff, rest)) => return Err(refusal(rest)?),
            Some((0xfe, rest)) => {
                let mut rest = Reader(rest);
                let (method, nonce) = (rest.until_zero(), rest.0);
                let nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce);
                let answer = proof(method, password, nonce, is_encrypted)?;
                send(stream, number.wrapping_add(1), &answer).await?;
            }
            // The server remembers this password.
            Some((0x01, [0x03])) => {}
            Some((0x01, [0x04])) if is_encrypted => {
                send(stream, number.wrapping_add(1), &in_the_clear(password)).await?;
            }
            Some((0x01, [0x04])) => {
                let why = "the server wants to see this user's password (caching_sha2_password), which it does by TLS \
                           only: write +tls in the scheme of the URL";
                return Err(WireError::Unable(why.to_owned()));
            }
            _ => return Err(protocol_error()),
        }
    }
}

/// What every answer to the greeting begins with.
fn head(abilities: u32) -> Vec<u8> {
    let mut packet = abilities.to_le_bytes().to_vec();
    packet.extend(0x100_0000_u32.to_le_bytes());
    packet.push(CHARACTERS);
    packet.extend([0; 23]);
    packet
}

fn greeting(packet: &[u8]) -> Result<Greeting, WireError> {
    let mut reader = Reader(packet);
    match reader.byte()? {
        10 => {}
        0xff => return Err(refusal(reader.0)?),
        _ => return Err(protocol_error()),
    }
    let version = String::from_utf8_lossy(reader.until_zero()).into_owned();
    let thread = reader.number(4)? as u32;
    let mut nonce = reader.take(8)?.to_vec();
    reader.take(1)?;
    let low = reader.number(2)? as u32;
    reader.take(3)?;
    let abilities = low | (reader.number(2)? as u32) << 16;
    let nonce_length = reader.byte()?;
    reader.take(10)?;
    let rest = reader.take(usize::from(nonce_length).saturating_sub(8).max(13))?;
    nonce.extend(rest.strip_suffix(&[0]).unwrap_or(rest));
    let method = reader.until_zero().to_vec();
    let ends = if abilities & WITHOUT_ENDS == 0 { Ends::Told } else { Ends::Untold };
    Ok(Greeting { version, thread, abilities, ends, nonce, method })
}
