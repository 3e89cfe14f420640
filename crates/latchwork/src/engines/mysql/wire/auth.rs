//! Authentication plugins: how the client proves that it knows a password.

use ring::digest::{Context, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

use super::WireError;

/// The response to a server that asks for authentication by this plugin. `nonce` is random data that the
/// server drew for this connection.
///
/// # Errors
/// If this client lacks the plugin, or would have to send the password unencrypted.
pub(super) fn auth_response(
    plugin: &[u8],
    password: &[u8],
    nonce: &[u8],
    is_encrypted: bool,
) -> Result<Vec<u8>, WireError> {
    match plugin {
        _ if password.is_empty() => Ok(Vec::new()),
        b"mysql_native_password" => Ok(native(password, nonce)),
        b"caching_sha2_password" => Ok(caching_sha2(password, nonce)),
        b"mysql_clear_password" if is_encrypted => Ok(clear_password(password)),
        other => {
            let plugin = String::from_utf8_lossy(other);
            let why = match other {
                b"mysql_clear_password" => "which is sent by TLS only: write +tls in the scheme of the URL",
                _ => {
                    "which Latchwork does not support; it supports mysql_native_password and caching_sha2_password"
                }
            };
            Err(WireError::Unable(format!("this user authenticates by {plugin}, {why}")))
        }
    }
}

/// `mysql_clear_password`: the password itself. Only over TLS, which authenticates the server.
pub(super) fn clear_password(password: &[u8]) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(plugin: &str, password: &str, is_encrypted: bool) -> Result<String, WireError> {
        let nonce: Vec<u8> = (1..=20).collect();
        let response = auth_response(plugin.as_bytes(), password.as_bytes(), &nonce, is_encrypted)?;
        Ok(response.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Computed by another program.
    #[test]
    fn auth_responses_are_those_of_the_plugins() {
        let native = "7cb17a1cfde8604319db4fb7e1b7a74bec035d7c";
        assert_eq!(hex("mysql_native_password", "s3cr@t", false).ok().as_deref(), Some(native));
        let sha2 = "57cda9b3eba7798669ea6cdd01489d9224da9cbdba5f2f87b497e172be3d8936";
        assert_eq!(hex("caching_sha2_password", "s3cr@t", false).ok().as_deref(), Some(sha2));
        assert_eq!(hex("mysql_native_password", "", false).ok().as_deref(), Some(""));
    }

    #[test]
    fn a_password_is_never_sent_in_the_clear() {
        let Err(WireError::Unable(why)) = hex("mysql_clear_password", "s3cr@t", false) else {
            panic!("sent")
        };
        assert!(why.contains("TLS") && !why.contains("s3cr@t"), "{why}");
        assert_eq!(hex("mysql_clear_password", "s3cr@t", true).ok().as_deref(), Some("73336372407400"));
        let Err(WireError::Unable(why)) = hex("client_ed25519", "s3cr@t", true) else { panic!("sent") };
        assert!(why.contains("client_ed25519") && !why.contains("s3cr@t"), "{why}");
    }
}
