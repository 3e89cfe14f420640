//! What a URL says: where the members are, and how to reach them.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::Result;
use crate::engine::EngineUrl;
use crate::engines::settings::{host_and_port, invalid, pem};

const KNOWN: [&str; 4] = ["ca", "cert", "key", "namespace"];
const PORT: u16 = 2379;

/// A cluster, and how to lock on it.
pub(super) struct Options {
    /// Never empty.
    pub(super) members: Vec<Member>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) user: Option<User>,
    /// Before every key.
    pub(super) namespace: String,
}

/// One member of the cluster.
pub(super) struct Member {
    pub(super) host: String,
    pub(super) port: u16,
    /// What its certificate must say.
    pub(super) name: ServerName<'static>,
}

/// Who asks. Not printed.
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option, what it takes and never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        if !url.path().trim_matches('/').is_empty() {
            let why = "takes no path; a prefix of all keys is namespace=app/ in the URL";
            return Err(invalid(url, why.to_owned()));
        }
        let mut members = url.hosts().map(|host| member(url, host)).collect::<Result<Vec<_>>>()?;
        if members.is_empty() {
            members.push(member(url, "127.0.0.1")?);
        }
        let namespace = url.option("namespace").unwrap_or_default().to_owned();
        Ok(Self { members, tls: tls(url)?, user: user(url)?, namespace })
    }

    /// The members' addresses, as they may be shown.
    pub(super) fn place(&self) -> String {
        let places: Vec<_> = self.members.iter().map(Member::place).collect();
        places.join(",")
    }
}

impl Member {
    /// Its address, as it may be shown.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

fn member(url: &EngineUrl, text: &str) -> Result<Member> {
    let (host, port) = host_and_port(text, PORT)
        .ok_or_else(|| invalid(url, "a port is no number from 1 to 65535".to_owned()))?;
    let name = ServerName::try_from(host.clone())
        .map_err(|_| invalid(url, "a host is neither a name nor an address".to_owned()))?;
    Ok(Member { host, port, name })
}

fn user(url: &EngineUrl) -> Result<Option<User>> {
    match (url.user(), url.password()) {
        (None, None) => Ok(None),
        (Some(name), Some(password)) => {
            Ok(Some(User { name: name.to_owned(), password: password.to_owned() }))
        }
        // Neither is shown: one may be meant as the other.
        _ => {
            Err(invalid(url, "a user and a password go together; write etcd://user:password@host".to_owned()))
        }
    }
}

fn tls(url: &EngineUrl) -> Result<Option<Arc<ClientConfig>>> {
    let files = ["ca", "cert", "key"].map(|option| url.option(option).map(Path::new));
    if url.scheme() != "etcd+tls" {
        return match files.iter().any(Option::is_some) {
            true => Err(invalid(url, "ca, cert and key are for TLS; write etcd+tls://".to_owned())),
            false => Ok(None),
        };
    }
    let [ca, cert, key] = files;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(url, &error))?
        .with_root_certificates(roots(url, ca)?);
    let mut config = match (cert, key) {
        (Some(cert), Some(key)) => {
            let certificates = certificates(url, "cert", cert)?;
            let key = PrivateKeyDer::from_pem_slice(&pem(url, "key", key)?)
                .map_err(|_| invalid(url, "key= is no private key in PEM form".to_owned()))?;
            config.with_client_auth_cert(certificates, key).map_err(|error| unusable(url, &error))?
        }
        (None, None) => config.with_no_client_auth(),
        _ => return Err(invalid(url, "cert and key go together; give both or neither".to_owned())),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(Arc::new(config)))
}

/// The authorities that are trusted: the given ones and no other, or else the system's.
fn roots(url: &EngineUrl, ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let trusted = match ca {
        Some(ca) => certificates(url, "ca", ca)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (good, _) = roots.add_parsable_certificates(trusted);
    match good {
        0 => Err(invalid(url, "no authority to trust; name one with ca=/path/ca.pem".to_owned())),
        _ => Ok(roots),
    }
}

fn certificates(url: &EngineUrl, option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = pem(url, option, path)?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    read.map_err(|_| invalid(url, format!("{option}= is no certificate in PEM form")))
}

fn unusable(url: &EngineUrl, error: &rustls::Error) -> crate::Error {
    invalid(url, format!("ca, cert or key cannot be used: {error}"))
}
