//! The command-line client of etcd.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::EtcdOptions;
use crate::servers::Identity;

/// `etcdctl` with credentials and a list of servers.
#[derive(Clone, Debug)]
#[must_use]
pub struct Etcdctl {
    arguments: Vec<String>,
}

impl Etcdctl {
    /// A client without user or certificate for the servers at these addresses.
    pub(super) fn new(addresses: &[SocketAddr], options: &EtcdOptions) -> Self {
        let scheme = options.scheme();
        let endpoints: Vec<_> = addresses.iter().map(|address| format!("{scheme}://{address}")).collect();
        let mut arguments = vec![format!("--endpoints={}", endpoints.join(","))];
        arguments
            .extend(options.tls.iter().map(|tls| format!("--cacert={}", tls.certificates.ca().display())));
        Self { arguments }
    }

    /// Uses this user and password.
    pub fn user(self, [name, password]: [&str; 2]) -> Self {
        self.with(format!("--user={name}:{password}"))
    }

    /// Uses this certificate.
    pub fn identity(self, Identity { certificate, key }: &Identity) -> Self {
        self.with(format!("--cert={}", certificate.display())).with(format!("--key={}", key.display()))
    }

    /// Uses this timeout instead of five seconds.
    pub fn within(self, limit: Duration) -> Self {
        let millis = limit.as_millis();
        self.with(format!("--command-timeout={millis}ms")).with(format!("--dial-timeout={millis}ms"))
    }

    /// Runs one command, and returns its output.
    ///
    /// # Errors
    /// If it fails, with its output.
    ///
    /// # Panics
    /// If `etcdctl` is not installed.
    pub fn run(&self, words: &[&str]) -> Result<String, String> {
        let done = self.command(words).output();
        let done = done.unwrap_or_else(|error| {
            panic!("etcdctl does not start ({error}); install the package etcd-client")
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match done.status.success() {
            true => Ok(text(&done.stdout)),
            false => Err(text(&done.stderr)),
        }
    }

    /// The command, for callers that run it in their own way: `etcdctl lock` holds until it is told to stop.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = clean("etcdctl");
        command.env("ETCDCTL_API", "3").args(&self.arguments).args(words);
        command
    }

    pub(super) fn trusting_anybody(self) -> Self {
        self.with("--insecure-skip-tls-verify".to_owned())
    }

    /// Enables authentication: only the root and the user with the prefix `prefix` have access from then on.
    pub(super) fn close_to_all_but(&self, prefix: &str) {
        let [[root, roots], [user, password]] = [EtcdOptions::ROOT, EtcdOptions::USER];
        for words in [
            &["user", "add", &format!("{root}:{roots}")][..],
            &["user", "grant-role", root, "root"],
            &["role", "add", user],
            &["role", "grant-permission", user, "readwrite", prefix, "--prefix"],
            &["user", "add", &format!("{user}:{password}")],
            &["user", "grant-role", user, user],
            &["auth", "enable"],
        ] {
            self.run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }

    fn with(mut self, argument: String) -> Self {
        self.arguments.push(argument);
        self
    }
}

/// A program of etcd without the settings that it would take from the environment.
pub(super) fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")) {
        command.env_remove(name);
    }
    command
}
