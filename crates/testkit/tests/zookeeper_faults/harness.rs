//! The harness: servers, a proxy in front of each, a store that checks tokens, and a record.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use testkit::harness::{FaultHarness, Judged};
pub(crate) use testkit::harness::{LOCK, LONG, SOON, now, pause, take, wait_for_loss, wait_for_renewal};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
use testkit::scenarios::cluster::ClusterHarness;
use testkit::servers::{ZooKeeperAdmin, ZooKeeperMember, ZooKeeperOptions, ZooKeeperServer};

/// The chroot of all locks of these tests.
pub(crate) const CHROOT: &str = "/app";
/// A session that does not expire during a test.
pub(crate) const LASTING: &str = "20s";
/// A session that expires without heartbeats. Its holder sees a failed renewal, and knows that the server is
/// unreachable, more than half a second before the loss is reported, even on a machine that stalls in
/// between.
pub(crate) const MORTAL: &str = "7s";

/// Servers with a fault harness around them.
pub(crate) struct ZookeeperHarness {
    harness: FaultHarness,
    /// In front of each member.
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) server: ZooKeeperServer,
}

impl Deref for ZookeeperHarness {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl ZookeeperHarness {
    pub(crate) fn new(options: ZooKeeperOptions) -> Self {
        let server = ZooKeeperServer::start(options);
        let proxies = server.members().iter().map(|member| Proxy::to(member.address())).collect();
        Self { harness: FaultHarness::new(), proxies, server }
    }

    /// A single server.
    pub(crate) fn one() -> Self {
        Self::new(ZooKeeperOptions::default())
    }

    /// Three members.
    pub(crate) fn three() -> Self {
        Self::new(ZooKeeperOptions::three())
    }

    /// The first proxy, or the only one.
    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxies[0]
    }

    /// The first member, or the only one.
    pub(crate) fn member(&self) -> &ZooKeeperMember {
        &self.server.members()[0]
    }

    /// The addresses of the servers, without the proxies.
    pub(crate) fn hosts(&self) -> String {
        hosts(self.server.members().iter().map(ZooKeeperMember::address))
    }

    /// The URL that bypasses the proxies.
    pub(crate) fn direct_url(&self, session: &str) -> String {
        url(self.server.members().iter().map(ZooKeeperMember::address), session)
    }

    /// A client behind the proxies.
    pub(crate) async fn client(&self, session: &str) -> RecordedClient {
        self.connect(&url(self.proxies.iter().map(Proxy::address), session)).await
    }

    /// A client that bypasses the proxies.
    pub(crate) async fn rival(&self, session: &str) -> RecordedClient {
        self.connect(&self.direct_url(session)).await
    }

    /// Clients behind the proxies.
    pub(crate) async fn clients(&self, count: usize, session: &str) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client(session).await);
        }
        clients
    }

    /// A client that knows only this member, without its proxy.
    pub(crate) async fn client_of(&self, member: &ZooKeeperMember, session: &str) -> RecordedClient {
        self.connect(&url([member.address()].into_iter(), session)).await
    }

    /// An independent client of these servers.
    pub(crate) async fn admin(&self) -> ZooKeeperAdmin {
        ZooKeeperAdmin::connect(&self.server, None).await
    }

    /// An independent client of this member only.
    pub(crate) async fn admin_of(&self, member: &ZooKeeperMember) -> ZooKeeperAdmin {
        ZooKeeperAdmin::of(&[member], None).await
    }

    /// Judges the record, and checks that the servers have no claim left.
    pub(crate) async fn judge(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        let judged = self.harness.judge(clients, answer_within).await;
        assert_eq!(nodes(&self.admin().await, LOCK).await, [""; 0], "left behind");
        judged
    }
}

impl ClusterHarness for ZookeeperHarness {
    fn until_healthy(&self) {
        self.server.until_healthy();
    }

    async fn observer(&self) -> RecordedClient {
        self.rival(LASTING).await
    }

    async fn judged(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        self.judge(clients, answer_within).await
    }
}

/// The names of the nodes of a lock's holders and waiters, in the order of their arrival.
pub(crate) async fn nodes(admin: &ZooKeeperAdmin, lock: &str) -> Vec<String> {
    let mut nodes = admin.children(&format!("{CHROOT}/{lock}")).await;
    nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
    nodes
}

/// Waits until there are this many nodes, for longer than a [`MORTAL`] session lives.
pub(crate) async fn until_nodes(admin: &ZooKeeperAdmin, lock: &str, count: usize) -> Vec<String> {
    let end = now().after(3 * SOON);
    loop {
        let nodes = nodes(admin, lock).await;
        if nodes.len() == count {
            return nodes;
        }
        assert!(now() < end, "not {count} nodes: {nodes:?}");
        pause(1).await;
    }
}

/// The whole path of a node.
pub(crate) fn path(lock: &str, node: &str) -> String {
    format!("{CHROOT}/{lock}/{node}")
}

fn url(addresses: impl Iterator<Item = SocketAddr>, session: &str) -> String {
    format!("zookeeper://{}{CHROOT}?session-ttl={session}", hosts(addresses))
}

fn hosts(addresses: impl Iterator<Item = SocketAddr>) -> String {
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(",")
}
