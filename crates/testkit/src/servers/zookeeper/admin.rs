//! Another client of the same servers: what an operator or somebody else's program does. It shares no code with the
//! engine, so that both cannot be wrong in the same way.

use std::net::SocketAddr;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::{ZooKeeperMember, ZooKeeperServer, thief};

/// A session of its own, for as long as it lives.
pub struct ZooKeeperAdmin {
    client: Client,
    places: Vec<SocketAddr>,
    is_private: bool,
}

impl ZooKeeperAdmin {
    /// Connects; as a user, if `digest` (`user:password`) says so.
    pub async fn connect(server: &ZooKeeperServer, digest: Option<&str>) -> Self {
        Self::of(&server.members().iter().collect::<Vec<_>>(), digest).await
    }

    /// Connects to some of the members.
    pub async fn of(members: &[&ZooKeeperMember], digest: Option<&str>) -> Self {
        let places: Vec<_> = members.iter().map(|member| member.plain_address()).collect();
        let hosts: Vec<_> = places.iter().map(SocketAddr::to_string).collect();
        let mut connector = Client::connector().with_session_timeout(std::time::Duration::from_secs(20));
        if let Some(digest) = digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        let client = connector.connect(&hosts.join(",")).await.expect("the servers can be reached");
        Self { client, places, is_private: digest.is_some() }
    }

    /// Makes a node that stays, for everybody or for the user alone.
    pub async fn make(&self, path: &str) {
        self.create(path, CreateMode::Persistent).await;
    }

    /// Makes a node that ends with this session, with ten digits behind its name.
    pub async fn enrol(&self, path: &str) -> String {
        self.create(path, CreateMode::EphemeralSequential).await
    }

    async fn create(&self, path: &str, mode: CreateMode) -> String {
        let acls = if self.is_private { Acls::creator_all() } else { Acls::anyone_all() };
        let options = mode.with_acls(acls);
        let (_, sequence) =
            self.client.create(path, b"somebody else", &options).await.expect("it can be made");
        if mode == CreateMode::EphemeralSequential { format!("{path}{sequence}") } else { path.to_owned() }
    }

    /// Removes a node.
    pub async fn delete(&self, path: &str) {
        self.client.delete(path, None).await.expect("it can be removed");
    }

    /// The children of a node, none if it is not there.
    pub async fn children(&self, path: &str) -> Vec<String> {
        match self.client.list_children(path).await {
            Err(Error::NoNode) => Vec::new(),
            children => children.expect("it can be read"),
        }
    }

    /// The transaction that made a node, if it is there.
    pub async fn czxid(&self, path: &str) -> Option<i64> {
        self.client.check_stat(path).await.expect("it can be read").map(|stat| stat.czxid)
    }

    /// Ends the session that a node ends with, as the server does when it hears nothing of it for too long.
    pub async fn end_session_of(&self, path: &str) {
        loop {
            let Some(stat) = self.client.check_stat(path).await.expect("it can be read") else { return };
            assert_ne!(stat.ephemeral_owner, 0, "it ends with no session");
            // Its owner may be back in between; then it is tried again.
            let places = self.places.clone();
            let ending = move || {
                places
                    .iter()
                    .map(|place| thief::end_session(*place, stat.ephemeral_owner))
                    .any(|done| done.is_ok())
            };
            assert!(tokio::task::spawn_blocking(ending).await.expect("no panic"), "no server answers");
        }
    }

    /// Removes everything below a node. What comes while it does may stay.
    pub async fn delete_below(&self, path: &str) {
        for child in self.children(path).await {
            let child = format!("{path}/{child}");
            Box::pin(self.delete_below(&child)).await;
            match self.client.delete(&child, None).await {
                Ok(()) | Err(Error::NoNode | Error::NotEmpty) => {}
                Err(error) => panic!("{child} cannot be removed: {error}"),
            }
        }
    }
}
