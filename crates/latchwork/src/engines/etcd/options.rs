//! The options of an `etcd://` URL.

use std::sync::Arc;

use rustls::ClientConfig;

use super::endpoint::Endpoint;
use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::invalid;
use crate::net::tls::tls;

const KNOWN: [&str; 4] = ["ca", "cert", "key", "namespace"];

/// A cluster, and how to lock on it.
pub(super) struct Options {
    /// The members. Never empty.
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) user: Option<User>,
    /// The prefix of every key.
    pub(super) namespace: String,
}

/// The credentials. Without `Debug`, so that they are never printed.
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

impl Options {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid). The error names the option and its valid values,
    /// never its value.
    pub(super) fn of(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&KNOWN)?;
        if !url.path().trim_matches('/').is_empty() {
            let why = "takes no path; set a prefix for all keys with namespace=app/";
            return Err(invalid(url, why.to_owned()));
        }
        let mut endpoints = url.hosts().map(|host| Endpoint::parse(url, host)).collect::<Result<Vec<_>>>()?;
        if endpoints.is_empty() {
            endpoints.push(Endpoint::parse(url, "127.0.0.1")?);
        }
        let namespace = url.option("namespace").unwrap_or_default().to_owned();
        let tls = tls(url)?.map(|mut tls| {
            tls.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(tls)
        });
        Ok(Self { endpoints, tls, user: user(url)?, namespace })
    }

    /// The members' addresses, for messages.
    pub(super) fn shown_as(&self) -> String {
        let addresses: Vec<_> = self.endpoints.iter().map(Endpoint::shown_as).collect();
        addresses.join(",")
    }
}

fn user(url: &EngineUrl) -> Result<Option<User>> {
    match (url.user(), url.password()) {
        (None, None) => Ok(None),
        (Some(name), Some(password)) => {
            Ok(Some(User { name: name.to_owned(), password: password.to_owned() }))
        }
        // The error shows neither: a password may stand where the user belongs.
        _ => {
            Err(invalid(url, "a user and a password go together; write etcd://user:password@host".to_owned()))
        }
    }
}
