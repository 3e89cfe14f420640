//! What a URL says: where the members are, and how to reach them.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{host_and_port, invalid};
use crate::net::tls::tls;

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
            let why = "takes no path; set a prefix for all keys with namespace=app/";
            return Err(invalid(url, why.to_owned()));
        }
        let mut members = url.hosts().map(|host| member(url, host)).collect::<Result<Vec<_>>>()?;
        if members.is_empty() {
            members.push(member(url, "127.0.0.1")?);
        }
        let namespace = url.option("namespace").unwrap_or_default().to_owned();
        let tls = tls(url)?.map(|mut tls| {
            tls.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(tls)
        });
        Ok(Self { members, tls, user: user(url)?, namespace })
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
