//! The options of a Redis server.

use std::path::{Path, PathBuf};

use crate::servers::Identity;
use crate::shim::Clocks;

/// The user of the server's owner, independent of the other users that a test configures.
pub(super) const ADMIN: [&str; 2] = ["testkit", "testkit"];

/// The options of a server. The default keeps everything in memory and requires no authentication.
#[derive(Clone, Default)]
pub struct RedisOptions<'a> {
    /// Writes an append-only file, so that a restarted server has its data.
    pub aof: bool,
    /// Accepts only TLS on its port. Its Unix socket stays without TLS.
    pub tls: Option<RedisTls>,
    /// The password of the default user.
    pub password: Option<String>,
    /// Users, as in an ACL file without the word `user`: `"app on >secret ~app:* +get"`.
    pub acl: Vec<String>,
    /// Further lines of its configuration: `("maxmemory", "2mb")`.
    pub config: Vec<(String, String)>,
    /// Clocks that the test moves.
    pub clocks: Option<&'a Clocks>,
}

/// The files of a server with TLS.
#[derive(Clone, Debug)]
pub struct RedisTls {
    /// The authority that signed the certificates of clients.
    pub ca: PathBuf,
    /// The server's certificate.
    pub identity: Identity,
    /// Whether clients need a certificate, too.
    pub clients_need_one: bool,
}

impl RedisOptions<'_> {
    /// The configuration file of a server on `port` whose files are in `folder`.
    pub(super) fn file(&self, port: u16, folder: &Path, socket: &Path) -> String {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", folder.display()),
            format!("unixsocket {}", socket.display()),
            "save \"\"".to_owned(),
            format!("appendonly {}", yes(self.aof)),
            "appendfsync everysec".to_owned(),
            format!("user {} on >{} ~* &* +@all", ADMIN[0], ADMIN[1]),
        ];
        match &self.tls {
            None => lines.push(format!("port {port}")),
            Some(tls) => lines.extend(tls.lines(port)),
        }
        lines.extend(self.password.iter().map(|password| format!("requirepass {password}")));
        lines.extend(self.acl.iter().map(|user| format!("user {user}")));
        lines.extend(self.config.iter().map(|(key, value)| format!("{key} {value}")));
        lines.push(String::new());
        lines.join("\n")
    }
}

impl RedisTls {
    fn lines(&self, port: u16) -> [String; 6] {
        [
            "port 0".to_owned(),
            format!("tls-port {port}"),
            format!("tls-ca-cert-file {}", self.ca.display()),
            format!("tls-cert-file {}", self.identity.certificate.display()),
            format!("tls-key-file {}", self.identity.key.display()),
            format!("tls-auth-clients {}", yes(self.clients_need_one)),
        ]
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
