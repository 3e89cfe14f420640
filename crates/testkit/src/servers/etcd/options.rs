//! How an etcd server is set up.

use std::sync::Arc;

use crate::servers::{Certificates, Identity};

/// How a server, or each member of a cluster, is set up. The default lets everybody in.
#[derive(Clone, Default)]
pub struct EtcdOptions {
    /// Speaks nothing but TLS with clients. Members talk plainly to each other, and figures are read plainly.
    pub tls: Option<EtcdTls>,
    /// Everybody must say who it is: the user [`EtcdOptions::USER`] has the keys with this prefix and no others.
    pub grant: Option<String>,
    /// Further arguments: `["--quota-backend-bytes=1000000"]`. The last of a name counts.
    pub arguments: Vec<String>,
}

/// The files of a server that speaks TLS.
#[derive(Clone)]
pub struct EtcdTls {
    /// Who signed the certificates of clients, and where the owner has its own from.
    pub certificates: Arc<Certificates>,
    /// The server's certificate.
    pub identity: Identity,
    /// Whether clients need a certificate, too.
    pub clients_need_one: bool,
}

impl EtcdOptions {
    /// Who may use one prefix, and the password.
    pub const USER: [&str; 2] = ["app", "s3cr@t"];
    /// Who may do everything where somebody may not.
    pub(super) const ROOT: [&str; 2] = ["root", "root"];

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl EtcdTls {
    /// Good certificates, on both sides.
    pub fn mutual() -> Self {
        let certificates = Arc::new(Certificates::make());
        Self { identity: certificates.server(), certificates, clients_need_one: true }
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let Identity { certificate, key } = &self.identity;
        let mut arguments =
            vec![format!("--cert-file={}", certificate.display()), format!("--key-file={}", key.display())];
        if self.clients_need_one {
            // A server that knows an authority wants certificates of it, also where the second is not said.
            arguments.push(format!("--trusted-ca-file={}", self.certificates.ca().display()));
            arguments.push("--client-cert-auth".to_owned());
        }
        arguments
    }
}
