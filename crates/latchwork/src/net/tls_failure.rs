//! Reasons why TLS fails, and advice for each.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// Why TLS fails. Another attempt fails until the URL, a certificate, a clock or the server changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsFailure {
    /// No trusted authority has signed the server's certificate.
    UnknownIssuer,
    /// The server's certificate is for other hosts.
    WrongHost,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet.
    NotValidYet,
    /// The server's certificate is rejected for another reason.
    ServerCertificate,
    /// The server requires a client certificate, and the URL names none.
    ClientCertificateRequired,
    /// The server rejects the client certificate.
    ClientCertificateRejected,
    /// The URL asks for TLS, and the server does not speak it on this port.
    NotSpoken,
    /// The URL asks for no TLS, and the server speaks nothing else on this port.
    Required,
    /// The message of the error says all there is to say.
    Other,
}

impl TlsFailure {
    /// The failure of TLS that is among the causes of `error`. `None` if TLS is not why it failed.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Some(Self::of_rustls(error));
            }
            cause = match error.downcast_ref::<io::Error>() {
                // Its source would be the source of what it wraps.
                Some(error) => error.get_ref().map(|wrapped| wrapped as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        None
    }

    fn of_rustls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::of_certificate(error),
            rustls::Error::AlertReceived(alert) => Self::of_alert(*alert),
            // The bytes are no message of TLS.
            rustls::Error::InvalidMessage(_) => Self::NotSpoken,
            _ => Self::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongHost
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotValidYet,
            _ => Self::ServerCertificate,
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateRequired => Self::ClientCertificateRequired,
            AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA => Self::ClientCertificateRejected,
            _ => Self::Other,
        }
    }

    /// The failure if these are the first bytes of a reply to an unencrypted request: a server that expects
    /// TLS answers with an alert, a record of type 21 and version 3.x.
    pub(crate) fn of_plain_reply(bytes: &[u8]) -> Option<Self> {
        bytes.starts_with(&[21, 3]).then_some(Self::Required)
    }

    /// Advice for the user; empty if the message of the error says it all.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::UnknownIssuer => "name the authority to trust with ca= in the URL",
            Self::WrongHost => "name the server in the URL by a name that its certificate is valid for",
            Self::Expired => "renew the server's certificate, or correct the clock of this machine",
            Self::NotValidYet => {
                "correct the clock of this machine, or of the one that issued the certificate"
            }
            Self::ClientCertificateRequired => {
                "the server requires a client certificate: set cert= and key= in the URL"
            }
            Self::ClientCertificateRejected => {
                "the server rejects the client certificate, or requires one: check cert= and key= in the URL"
            }
            Self::NotSpoken => {
                "the server does not speak TLS on this port; use its port for TLS, or a URL scheme without TLS to send \
                 everything unencrypted"
            }
            Self::Required => {
                "the server speaks TLS on this port; write +tls in the scheme of the URL (rediss:// for Redis)"
            }
            Self::ServerCertificate | Self::Other => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_rustls::TlsConnector;

    use super::*;

    #[test]
    fn a_failure_is_found_among_the_causes_of_an_error() {
        let wrapped =
            |error: rustls::Error| io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
        for (error, failure) in [
            (rustls::Error::from(CertificateError::UnknownIssuer), TlsFailure::UnknownIssuer),
            (CertificateError::NotValidForName.into(), TlsFailure::WrongHost),
            (CertificateError::Expired.into(), TlsFailure::Expired),
            (CertificateError::NotValidYet.into(), TlsFailure::NotValidYet),
            (CertificateError::Revoked.into(), TlsFailure::ServerCertificate),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                TlsFailure::ClientCertificateRequired,
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::UnknownCA),
                TlsFailure::ClientCertificateRejected,
            ),
            (rustls::Error::AlertReceived(AlertDescription::HandshakeFailure), TlsFailure::Other),
            (rustls::Error::DecryptError, TlsFailure::Other),
        ] {
            assert_eq!(TlsFailure::of(&wrapped(error.clone())), Some(failure), "{error}");
        }
        assert_eq!(TlsFailure::of(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
        assert_eq!(TlsFailure::of(&io::Error::other("certificate")), None);
    }

    /// The error of a real handshake with a server that sends these bytes.
    async fn handshake_with(reply: &[u8]) -> io::Error {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let (near, mut far) = duplex(4096);
        let server = async {
            let mut hello = [0; 512];
            let length = far.read(&mut hello).await.expect("a hello");
            assert!(length > 0);
            far.write_all(reply).await.expect("read");
            drop(far);
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let (shaken, ()) = tokio::join!(TlsConnector::from(Arc::new(config)).connect(name, near), server);
        shaken.expect_err("no handshake")
    }

    #[tokio::test]
    async fn what_a_server_sends_instead_of_a_handshake_is_told_apart() {
        for (reply, failure) in [
            (&b"-ERR unknown command\r\n"[..], Some(TlsFailure::NotSpoken)),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", Some(TlsFailure::NotSpoken)),
            (&[21, 3, 3, 0, 2, 2, 116], Some(TlsFailure::ClientCertificateRequired)),
            (&[21, 3, 3, 0, 2, 2, 42], Some(TlsFailure::ClientCertificateRejected)),
            (&[21, 3, 3, 0, 2, 2, 40], Some(TlsFailure::Other)),
            (b"", None),
        ] {
            let error = handshake_with(reply).await;
            assert_eq!(TlsFailure::of(&error), failure, "{reply:?}: {error}");
        }
    }

    #[test]
    fn an_alert_answers_a_plain_request() {
        assert_eq!(TlsFailure::of_plain_reply(&[21, 3, 1, 0, 2, 2, 80]), Some(TlsFailure::Required));
        assert_eq!(TlsFailure::of_plain_reply(b"-ERR"), None);
        assert_eq!(TlsFailure::of_plain_reply(b""), None);
    }
}
