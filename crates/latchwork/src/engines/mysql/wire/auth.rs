//! How a password is proven without being said.

use ring::digest::{Context, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::Trouble;

/// The answer to a server that wants to know the password by this method. `nonce`: what it drew for this connection.
pub(super) fn proof(
    method: &[u8],
    password: &[u8],
    nonce: &[u8],
    is_encrypted: bool,
) -> Result<Vec<u8>, Trouble> {
    match method {
        _ if password.is_empty() => Ok(Vec::new()),
        b"mysql_native_password" => Ok(native(password, nonce)),
        b"caching_sha2_password" => Ok(caching_sha2(password, nonce)),
        b"mysql_clear_password" if is_encrypted => Ok(in_the_clear(password)),
        other => {
            let method = String::from_utf8_lossy(other);
            let why = match other {
                b"mysql_clear_password" => "only by TLS: write +tls in the scheme of the URL",
                _ => "which Latchwork cannot; it can mysql_native_password and caching_sha2_password",
            };
            Err(Trouble::Unable(format!("this user's password is proven by {method}, {why}")))
        }
    }
}

/// The password itself, for a server that is known and a connection nobody listens to.
pub(super) fn in_the_clear(password: &[u8]) -> Vec<u8> {
    [password, &[0]].concat()
}

/// SHA1(password) xor SHA1(nonce, SHA1(SHA1(password))).
fn native(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let once = digest(&SHA1_FOR_LEGACY_USE_ONLY, password);
    let twice = digest(&SHA1_FOR_LEGACY_USE_ONLY, once.as_ref());
    let mut mixed = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    mixed.update(nonce);
    mixed.update(twice.as_ref());
    xor(&once, &mixed.finish())
}

/// SHA256(password) xor SHA256(SHA256(SHA256(password)), nonce).
fn caching_sha2(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let once = digest(&SHA256, password);
    let twice = digest(&SHA256, once.as_ref());
    let mut mixed = Context::new(&SHA256);
    mixed.update(twice.as_ref());
    mixed.update(nonce);
    xor(&once, &mixed.finish())
}

fn xor(one: &Digest, other: &Digest) -> Vec<u8> {
    one.as_ref().iter().zip(other.as_ref()).map(|(one, other)| one ^ other).collect()
}
