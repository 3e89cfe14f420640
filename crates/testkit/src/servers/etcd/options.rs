//! The options of an etcd server.

use std::sync::Arc;

use crate::servers::{Certificates, Identity};

/// The options of a server, or of each member of a cluster. The default requires no authentication.
#[derive(Clone, Default)]
pub struct EtcdOptions {
    /// Requires TLS of clients. Members connect to each other without TLS, and metrics are served without
    /// TLS.
    pub tls: Option<EtcdTls>,
    /// Requires authentication: the user [`EtcdOptions::USER`] has access to the keys with this prefix only.
    pub grant: Option<String>,
    /// Further arguments: `["--quota-backend-bytes=1000000"]`. The last one with a name counts.
    pub arguments: Vec<String>,
}

/// The files of a server with TLS.
#[derive(Clone)]
pub struct EtcdTls {
    /// The authority that signed the certificates of clients, and the source of the owner's certificate.
    pub certificates: Arc<Certificates>,
    /// The server's certificate.
    pub identity: Identity,
    /// Whether clients need a certificate, too.
    pub clients_need_one: bool,
}

impl EtcdOptions {
    /// The user with access to one prefix, and the password.
    pub const USER: [&str; 2] = ["app", "s3cr@t"];
    /// The user with all rights, on a server with authentication.
    pub(super) const ROOT: [&str; 2] = ["root", "root"];

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl EtcdTls {
    /// Valid certificates on both sides.
    pub fn mutual() -> Self {
        let certificates = Arc::new(Certificates::make());
        Self { identity: certificates.server(), certificates, clients_need_one: true }
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let Identity { certificate, key } = &self.identity;
        let mut arguments =
            vec![format!("--cert-file={}", certificate.display()), format!("--key-file={}", key.display())];
        if self.clients_need_one {
            // A server that knows an authority requires client certificates, even without the second
            // argument.
            arguments.push(format!("--trusted-ca-file={}", self.certificates.ca().display()));
            arguments.push("--client-cert-auth".to_owned());
        }
        arguments
    }
}
