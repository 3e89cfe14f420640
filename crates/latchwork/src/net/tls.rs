//! TLS: the configuration of a URL (`ca=`, `cert=`, `key=`), and the handshake. Certificate checks cannot be
//! turned off.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connection_error::ConnectionError;
use super::tls_failure::TlsFailure;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{invalid, pem};

/// The configuration, if the scheme of the URL ends in `+tls` or is `rediss`.
///
/// # Errors
/// For a file that cannot be used, and for file options without TLS.
pub(crate) fn tls(url: &EngineUrl) -> Result<Option<ClientConfig>> {
    let files = ["ca", "cert", "key"].map(|option| url.option(option).map(Path::new));
    if !(url.scheme().ends_with("+tls") || url.scheme() == "rediss") {
        return match (files.iter().any(Option::is_some), url.scheme()) {
            (false, _) => Ok(None),
            (true, "redis" | "redis+unix") => Err(not_secured(url, "rediss")),
            (true, scheme) => Err(not_secured(url, &format!("{scheme}+tls"))),
        };
    }
    let [ca, cert, key] = files;
    // Named, because rustls would panic if an application compiled in two providers and chose none.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(url, &error))?
        .with_root_certificates(roots(url, ca)?);
    let config = match (cert, key) {
        (Some(cert), Some(key)) => {
            let certificates = certificates(url, "cert", cert)?;
            let key = PrivateKeyDer::from_pem_slice(&pem(url, "key", key)?)
                .map_err(|_| invalid(url, "key= is not a valid PEM-encoded private key".to_owned()))?;
            config.with_client_auth_cert(certificates, key).map_err(|error| unusable(url, &error))?
        }
        (None, None) => config.with_no_client_auth(),
        _ => return Err(invalid(url, "cert and key go together; give both or neither".to_owned())),
    };
    Ok(Some(config))
}

/// Performs the handshake on a connection that begins with it.
///
/// # Errors
/// Why the handshake failed, with what to do about it.
pub(crate) async fn handshake(
    config: &Arc<ClientConfig>,
    name: ServerName<'static>,
    stream: TcpStream,
) -> std::result::Result<TlsStream<TcpStream>, ConnectionError> {
    let connecting = TlsConnector::from(config.clone()).connect(name, stream);
    connecting.await.map_err(ConnectionError::of_handshake)
}

/// The name that the certificate of a server must be valid for.
///
/// # Errors
/// If this host cannot be a name in a certificate.
pub(crate) fn server_name(host: &str) -> std::result::Result<ServerName<'static>, ConnectionError> {
    ServerName::try_from(host.to_owned())
        .map_err(|error| ConnectionError::new(error.to_string(), Some(TlsFailure::Other)))
}

/// The trusted authorities: those in `ca`, or else those of the system.
fn roots(url: &EngineUrl, ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let trusted = match ca {
        Some(ca) => certificates(url, "ca", ca)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (good, _) = roots.add_parsable_certificates(trusted);
    match good {
        0 => Err(invalid(
            url,
            "there is no certificate authority to trust; name one with ca=/path/ca.pem".to_owned(),
        )),
        _ => Ok(roots),
    }
}

fn certificates(url: &EngineUrl, option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = pem(url, option, path)?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    read.map_err(|_| invalid(url, format!("{option}= is not a valid PEM-encoded certificate")))
}

fn not_secured(url: &EngineUrl, scheme: &str) -> crate::Error {
    invalid(url, format!("ca, cert and key are for TLS; write {scheme}://"))
}

fn unusable(url: &EngineUrl, error: &rustls::Error) -> crate::Error {
    invalid(url, format!("ca, cert or key cannot be used: {error}"))
}
