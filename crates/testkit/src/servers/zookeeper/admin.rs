//! An independent client of the same servers, for the actions of an operator or of another program. It shares
//! no code with the engine, so that both cannot be wrong in the same way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::admin_connection::{AdminConnection, NO_NODE, NOT_EMPTY};
use super::jute::JuteWriter;
use super::{ZooKeeperMember, ZooKeeperServer, thief};

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const CHILDREN: i32 = 8;

/// All permissions.
const ALL: i32 = 31;
const ANY_VERSION: i32 = -1;

/// The mode of a node.
#[derive(Clone, Copy)]
enum Stay {
    Always = 0,
    /// Ephemeral, with exactly its name.
    WhileThere = 1,
    /// Ephemeral and sequential: ten digits are appended to its name.
    WithSession = 3,
}

/// A session of its own, which ends when this is dropped.
pub struct ZooKeeperAdmin {
    connection: Arc<Mutex<AdminConnection>>,
    places: Vec<SocketAddr>,
    is_private: bool,
}

impl ZooKeeperAdmin {
    /// Connects; as a user, if `digest` (`user:password`) is given.
    pub async fn connect(server: &ZooKeeperServer, digest: Option<&str>) -> Self {
        Self::of(&server.members().iter().collect::<Vec<_>>(), digest).await
    }

    /// Connects to some of the members.
    pub async fn of(members: &[&ZooKeeperMember], digest: Option<&str>) -> Self {
        let places: Vec<_> = members.iter().map(|member| member.plain_address()).collect();
        let connection =
            Arc::new(Mutex::new(AdminConnection::new(places.clone(), digest.map(str::to_owned))));
        let admin = Self { connection, places, is_private: digest.is_some() };
        admin.owner_and_birth("/").await;
        admin
    }

    /// Sends requests on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut AdminConnection) -> T + Send + 'static,
    ) -> T {
        let connection = self.connection.clone();
        let asking = move || what(&mut connection.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(asking).await.expect("the servers answer")
    }

    /// Creates a persistent node, with access for everyone or for the user alone.
    pub async fn make(&self, path: &str) {
        self.create(path, Stay::Always).await;
    }

    /// Creates an ephemeral sequential node, and returns its path with the ten digits.
    pub async fn enrol(&self, path: &str) -> String {
        self.create(path, Stay::WithSession).await
    }

    /// Creates an ephemeral node with exactly this name.
    pub async fn hold(&self, path: &str) {
        self.create(path, Stay::WhileThere).await;
    }

    async fn create(&self, path: &str, stay: Stay) -> String {
        let [scheme, id] = if self.is_private { ["auth", ""] } else { ["world", "anyone"] };
        let words = JuteWriter::default().text(path).bytes(b"somebody else");
        let words = words.int(1).int(ALL).text(scheme).text(id).int(stay as i32);
        self.ask(move |connection| connection.write(CREATE, &words))
            .await
            .expect("the node can be created")
            .text()
    }

    /// Removes a node.
    pub async fn delete(&self, path: &str) {
        self.try_delete(path).await.expect("the node can be removed");
    }

    async fn try_delete(&self, path: &str) -> Result<(), i32> {
        let words = JuteWriter::default().text(path).int(ANY_VERSION);
        self.ask(move |connection| connection.write(DELETE, &words)).await.map(drop)
    }

    /// The children of a node; empty if the node does not exist.
    pub async fn children(&self, path: &str) -> Vec<String> {
        let words = JuteWriter::default().text(path).flag(false);
        match self.ask(move |connection| connection.read(CHILDREN, &words)).await {
            Err(NO_NODE) => Vec::new(),
            children => children.expect("the node can be read").texts(),
        }
    }

    /// The transaction that created a node, if it exists.
    pub async fn czxid(&self, path: &str) -> Option<i64> {
        self.owner_and_birth(path).await.map(|(_, birth)| birth)
    }

    /// The session that owns a node, or zero, and the transaction that created it.
    async fn owner_and_birth(&self, path: &str) -> Option<(i64, i64)> {
        let words = JuteWriter::default().text(path).flag(false);
        let mut stat = match self.ask(move |connection| connection.read(EXISTS, &words)).await {
            Err(NO_NODE) => return None,
            stat => stat.expect("the node can be read"),
        };
        let (birth, _changed, _times) = (stat.long(), stat.long(), [stat.long(), stat.long()]);
        let _versions = [stat.int(), stat.int(), stat.int()];
        Some((stat.long(), birth))
    }

    /// Ends the session that owns a node, as the server does after a session timeout.
    pub async fn end_session_of(&self, path: &str) {
        while let Some((session, _)) = self.owner_and_birth(path).await {
            assert_ne!(session, 0, "the node belongs to no session");
            // The owner may reconnect in between; then it is tried again.
            let places = self.places.clone();
            let ending = move || places.iter().any(|place| thief::end_session(*place, session).is_ok());
            assert!(tokio::task::spawn_blocking(ending).await.expect("no panic"), "no server answers");
        }
    }

    /// Removes everything below a node. Nodes created meanwhile may stay.
    pub async fn delete_below(&self, path: &str) {
        for child in self.children(path).await {
            let child = format!("{path}/{child}");
            Box::pin(self.delete_below(&child)).await;
            match self.try_delete(&child).await {
                Ok(()) | Err(NO_NODE | NOT_EMPTY) => {}
                Err(error) => panic!("{child} cannot be removed: {error}"),
            }
        }
    }
}
