//! The harness: servers, a proxy in front of each, a store that checks tokens, and a record.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use testkit::harness::{FaultHarness, Judged};
pub(crate) use testkit::harness::{
    LOCK, LONG, SOON, connect, now, pause, take, wait_for_loss, wait_for_renewal,
};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
pub(crate) use testkit::scenarios::cluster::ClusterHarness;
use testkit::servers::{EtcdCluster, EtcdOptions, EtcdServer, Etcdctl};

/// A single server, or the members of a cluster.
pub(crate) trait Servers {
    fn members(&self) -> &[EtcdServer];
    fn owner(&self) -> Etcdctl;
    fn until_healthy(&self);
}

impl Servers for EtcdServer {
    fn members(&self) -> &[EtcdServer] {
        std::slice::from_ref(self)
    }

    fn owner(&self) -> Etcdctl {
        Self::owner(self)
    }

    /// A single server answers, or the next request fails.
    fn until_healthy(&self) {}
}

impl Servers for EtcdCluster {
    fn members(&self) -> &[EtcdServer] {
        Self::members(self)
    }

    fn owner(&self) -> Etcdctl {
        Self::owner(self)
    }

    fn until_healthy(&self) {
        Self::until_healthy(self);
    }
}

/// Servers with a fault harness around them.
pub(crate) struct EtcdHarness<S> {
    harness: FaultHarness,
    /// In front of each member.
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) servers: S,
}

impl<S> Deref for EtcdHarness<S> {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl EtcdHarness<EtcdServer> {
    /// A single server.
    pub(crate) fn one() -> Self {
        Self::with(EtcdServer::start(EtcdOptions::default()))
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxies[0]
    }

    /// Waits until the proxy has dropped a reply as ordered.
    pub(crate) async fn wait_for_a_lost_reply(&self) {
        let lost = self.proxy().until_lost_replies(1);
        tokio::time::timeout(SOON, lost).await.expect("the request was forwarded");
    }
}

impl EtcdHarness<EtcdCluster> {
    /// Three members.
    pub(crate) fn three() -> Self {
        Self::with(EtcdCluster::start(EtcdOptions::default()))
    }

    /// Three members that can be divided.
    pub(crate) fn divisible() -> Self {
        Self::with(EtcdCluster::start_divisible(EtcdOptions::default()))
    }

    /// Clients that use this member for as long as it works, and know the others.
    pub(crate) async fn clients_of(&self, member: usize, count: usize) -> Vec<RecordedClient> {
        let addresses = (0..3).map(|turn| self.proxies[(member + turn) % 3].address());
        let url = url(addresses);
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.connect(&url).await);
        }
        clients
    }
}

impl<S: Servers> EtcdHarness<S> {
    fn with(servers: S) -> Self {
        let proxies = servers.members().iter().map(|member| Proxy::to(member.address())).collect();
        Self { harness: FaultHarness::new(), proxies, servers }
    }

    /// The URL through the proxies.
    pub(crate) fn url(&self) -> String {
        url(self.proxies.iter().map(Proxy::address))
    }

    /// The URL that bypasses the proxies.
    pub(crate) fn direct_url(&self) -> String {
        url(self.servers.members().iter().map(EtcdServer::address))
    }

    /// A client behind the proxies.
    pub(crate) async fn client(&self) -> RecordedClient {
        self.connect(&self.url()).await
    }

    /// A client that bypasses the proxies.
    pub(crate) async fn direct_client(&self) -> RecordedClient {
        self.connect(&self.direct_url()).await
    }

    pub(crate) async fn clients(&self, count: usize) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
    }

    /// Runs `etcdctl`, without the proxies, with all rights.
    pub(crate) fn etcdctl(&self, words: &[&str]) -> String {
        self.servers.owner().run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The keys of the holders and waiters of [`LOCK`], in the order of their arrival.
    pub(crate) fn keys(&self) -> Vec<String> {
        let below = format!("{LOCK}/");
        let keys = self.etcdctl(&["get", "--prefix", "--keys-only", "--sort-by=CREATE", &below]);
        keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Waits until there are this many keys below [`LOCK`], and returns them.
    pub(crate) async fn until_keys(&self, count: usize) -> Vec<String> {
        let end = now().after(SOON);
        loop {
            let keys = self.keys();
            if keys.len() == count {
                return keys;
            }
            assert!(now() < end, "not {count} keys: {keys:?}");
            pause(2).await;
        }
    }

    /// Revokes the lease of a key.
    pub(crate) fn revoke_lease_of(&self, key: &str) {
        self.etcdctl(&["lease", "revoke", &lease_of(key)]);
    }

    /// Checks the record, and that the server has no key left except for fences. Fences end with their
    /// leases.
    pub(crate) async fn judge(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        let judged = self.harness.judge(clients, answer_within).await;
        let left = self.all_keys();
        assert!(left.iter().all(|key| key.starts_with('\t')), "left behind: {left:?}");
        judged
    }

    /// All keys of the server.
    pub(crate) fn all_keys(&self) -> Vec<String> {
        let keys = self.etcdctl(&["get", "--prefix", "--keys-only", ""]);
        keys.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

impl<S: Servers> ClusterHarness for EtcdHarness<S> {
    fn until_healthy(&self) {
        self.servers.until_healthy();
    }

    async fn observer(&self) -> RecordedClient {
        self.direct_client().await
    }

    async fn judged(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        self.judge(clients, answer_within).await
    }
}

/// The lease of a key, in the digits that `etcdctl` takes.
pub(crate) fn lease_of(key: &str) -> String {
    let last = key.rsplit('/').next().expect("a part");
    last.split('-').next().expect("a lease").to_owned()
}

fn url(addresses: impl Iterator<Item = SocketAddr>) -> String {
    let hosts: Vec<_> = addresses.map(|address| address.to_string()).collect();
    format!("etcd://{}", hosts.join(","))
}
