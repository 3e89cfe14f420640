//! The options of a ZooKeeper server.

use std::fs;
use std::path::Path;

use super::Ports;
use crate::servers::Certificates;

/// The options of servers. The default is a single server without authentication.
#[derive(Default)]
pub struct ZooKeeperOptions {
    /// The number of members of an ensemble; zero means a single server.
    pub members: usize,
    /// Shortens the timeout between members from five seconds to one and a half.
    pub is_impatient: bool,
    /// Lets members be cut off from each other. Traffic between members takes longer.
    pub is_divisible: bool,
    /// Accepts TLS from clients with a certificate of these, on a port of its own.
    pub tls: Option<Certificates>,
    /// Prepares for measurements: Java compiles with full optimization, which takes it some seconds of work.
    pub is_measured: bool,
}

impl ZooKeeperOptions {
    /// Three members.
    pub fn three() -> Self {
        Self { members: 3, ..Self::default() }
    }

    /// Three members that can be cut off from each other.
    pub fn divisible() -> Self {
        Self { is_divisible: true, ..Self::three() }
    }

    /// A server with TLS.
    pub fn tls() -> Self {
        Self { tls: Some(Certificates::make()), ..Self::default() }
    }

    /// The configuration file of a member. Ticks are short, so that sessions can be short. Writes do not wait
    /// for the disk, because no test cuts the machine's power.
    pub(super) fn file(&self, own: &Ports, all: &[Ports], folder: &Path) -> String {
        let mut lines = vec![
            "tickTime=100".to_owned(),
            "maxSessionTimeout=60000".to_owned(),
            format!("dataDir={}", folder.display()),
            format!("clientPort={}", own.client),
            "clientPortAddress=127.0.0.1".to_owned(),
            "maxClientCnxns=0".to_owned(),
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
            "forceSync=no".to_owned(),
            "preAllocSize=1024".to_owned(),
        ];
        if all.len() > 1 {
            let ticks = if self.is_impatient { 15 } else { 50 };
            lines.extend(["initLimit=200".to_owned(), format!("syncLimit={ticks}")]);
            let introduced = all.iter().enumerate();
            lines.extend(introduced.map(|(number, ports)| {
                format!("server.{}=127.0.0.1:{}:{}", number + 1, ports.peer, ports.election)
            }));
        }
        if let Some(certificates) = &self.tls {
            let (ca, server) = (certificates.ca(), certificates.server());
            let both = [&server.key, &server.certificate]
                .map(|file| fs::read_to_string(file).expect("the path exists"));
            let identity = folder.join("server.pem");
            fs::write(&identity, both.concat()).expect("the folder is ours");
            lines.extend([
                format!("secureClientPort={}", own.secure),
                "secureClientPortAddress=127.0.0.1".to_owned(),
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
                format!("ssl.keyStore.location={}", identity.display()),
                "ssl.keyStore.type=PEM".to_owned(),
                format!("ssl.trustStore.location={}", ca.display()),
                "ssl.trustStore.type=PEM".to_owned(),
                "ssl.clientAuth=need".to_owned(),
                "ssl.hostnameVerification=false".to_owned(),
            ]);
        }
        lines.push(String::new());
        lines.join("\n")
    }
}
