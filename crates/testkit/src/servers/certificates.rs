//! Certificates for servers with TLS, and some that must not be trusted.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

/// The hosts of test servers.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

/// PEM files in a folder of their own, created for each test and removed with it.
pub struct Certificates {
    folder: TempDir,
}

/// A certificate and its key, as paths of PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

impl Certificates {
    /// Creates all certificates.
    pub fn make() -> Self {
        let made = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        let (ours, theirs) = (made.authority("ca"), made.authority("other-ca"));
        made.identity("server", &HERE, &ours, |_| {});
        made.identity("client", &[], &ours, |_| {});
        made.identity("other-host", &["elsewhere.example"], &ours, |_| {});
        made.identity("stranger", &HERE, &theirs, |_| {});
        made.identity("expired", &HERE, &ours, |params| params.not_after = date_time_ymd(2020, 1, 1));
        made
    }

    /// The authority that signed everything but [`Certificates::stranger`].
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The authority that signed only [`Certificates::stranger`].
    pub fn other_ca(&self) -> PathBuf {
        self.file("other-ca.pem")
    }

    /// Valid for a server at 127.0.0.1 or localhost.
    pub fn server(&self) -> Identity {
        self.files("server")
    }

    /// Valid for a client.
    pub fn client(&self) -> Identity {
        self.files("client")
    }

    /// Valid for a server at `elsewhere.example`, and for no other.
    pub fn other_host(&self) -> Identity {
        self.files("other-host")
    }

    /// Valid for servers and clients that trust the other authority.
    pub fn stranger(&self) -> Identity {
        self.files("stranger")
    }

    /// Was valid for servers and clients, until 2020.
    pub fn expired(&self) -> Identity {
        self.files("expired")
    }

    fn authority(&self, name: &str) -> Authority {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority =
            CertifiedIssuer::self_signed(params, new_key()).expect("the certificate can be signed");
        self.write(&format!("{name}.pem"), &authority.pem());
        authority
    }

    fn identity(&self, name: &str, hosts: &[&str], by: &Authority, change: fn(&mut CertificateParams)) {
        let mut params = named(name, hosts);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = new_key();
        let certificate = params.signed_by(&key, by).expect("the certificate can be signed");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn files(&self, name: &str) -> Identity {
        Identity { certificate: self.file(&format!("{name}.pem")), key: self.file(&format!("{name}.key")) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.file(name), pem).expect("the folder is ours");
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(hosts).expect("hosts are plain");
    params.distinguished_name.push(DnType::CommonName, format!("latchwork test {name}"));
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;
    use crate::servers::{RedisOptions, RedisServer, RedisTls};

    fn server(certificates: &Certificates, identity: Identity, clients_need_one: bool) -> RedisServer {
        let tls = Some(RedisTls { ca: certificates.ca(), identity, clients_need_one });
        RedisServer::start(RedisOptions { tls, ..RedisOptions::default() })
    }

    /// The result of a PING by a client that trusts `ca` and presents `who`.
    fn ping(
        server: &RedisServer,
        ca: &Path,
        who: Option<Identity>,
        host: &'static str,
    ) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match who {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
        };
        let connection =
            ClientConnection::new(Arc::new(config), ServerName::try_from(host).unwrap()).unwrap();
        let socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        Ok(String::from_utf8_lossy(&reply).into_owned())
    }

    #[test]
    fn a_server_is_trusted_by_clients_that_know_its_authority() {
        let certificates = Certificates::make();
        let (ca, server) = (certificates.ca(), server(&certificates, certificates.server(), false));
        for host in HERE {
            assert_eq!(ping(&server, &ca, None, host).unwrap(), "+PONG\r\n");
        }
        let error = ping(&server, &certificates.other_ca(), None, "127.0.0.1").unwrap_err();
        assert!(error.to_string().contains("UnknownIssuer"), "{error}");
        assert!(server.command(&["PING"]).is("PONG"), "the Unix socket has no TLS");
    }

    #[test]
    fn a_client_needs_a_certificate_of_the_servers_authority() {
        let certificates = Certificates::make();
        let (ca, server) = (certificates.ca(), server(&certificates, certificates.server(), true));
        assert_eq!(ping(&server, &ca, Some(certificates.client()), "localhost").unwrap(), "+PONG\r\n");
        for who in [None, Some(certificates.stranger()), Some(certificates.expired())] {
            assert!(ping(&server, &ca, who, "localhost").is_err());
        }
    }

    #[test]
    fn a_server_with_a_wrong_certificate_is_not_trusted_for_the_reason_in_its_name() {
        let certificates = Certificates::make();
        for (identity, reason) in [
            (certificates.other_host(), "NotValidForName"),
            (certificates.expired(), "Expired"),
            (certificates.stranger(), "UnknownIssuer"),
        ] {
            let server = server(&certificates, identity, false);
            let error = ping(&server, &certificates.ca(), None, "127.0.0.1").unwrap_err();
            assert!(format!("{error:?}").contains(reason), "{error:?}");
        }
    }
}
