//! Requests and their replies. The names are those of ZooKeeper's protocol.

use super::jute::{InputArchive, OutputArchive};

/// Opcodes of `ZooDefs.OpCode`.
const DELETE: i32 = 2;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const CREATE2: i32 = 15;
const CREATE_CONTAINER: i32 = 19;

/// All permissions, for an ACL.
const PERMS_ALL: i32 = 31;
/// Any version of a node.
const ANY_VERSION: i32 = -1;

/// A request about one node.
#[derive(Clone, Debug)]
pub(in super::super) enum NodeRequest {
    /// Creates a node. For a sequential one, the server adds ten digits to the path.
    Create { path: String, data: Vec<u8>, mode: CreateMode },
    /// Deletes a node, whatever its version is.
    Delete { path: String },
    /// Reads a node. With a watch, the next change is reported.
    GetData { path: String, watch: bool },
    /// Writes a node of this version.
    SetData { path: String, data: Vec<u8>, version: i32 },
    /// Creates a node with null data, which differs from empty data.
    CreateCell { path: String },
    /// Reads a node. The reply tells null from empty data.
    GetCell { path: String, watch: bool },
    /// Writes a node of this version, or sets its data to null.
    SetCell { path: String, data: Option<Vec<u8>>, version: i32 },
    /// Lists the children of a node.
    GetChildren { path: String },
    /// Brings the server up to date: later requests see everything that was done before on any server.
    Sync { path: String },
}

/// The kind of a new node, with its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CreateMode {
    Persistent = 0,
    Ephemeral = 1,
    EphemeralSequential = 3,
    Container = 4,
}

/// The reply to a request that was carried out.
#[derive(Clone, Debug)]
pub(in super::super) enum Reply {
    Created { path: String, stat: Stat },
    Node { data: Vec<u8>, stat: Stat },
    Cell { data: Option<Vec<u8>>, stat: Stat },
    Written(Stat),
    Children(Vec<String>),
    Done,
}

/// The server's description of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Stat {
    /// The transaction that created the node.
    pub(in super::super) czxid: i64,
    /// The time of that transaction, in milliseconds since 1970.
    pub(in super::super) ctime: i64,
    /// How often the node was written.
    pub(in super::super) version: i32,
    /// The session that the node ends with. 0: the node is not ephemeral.
    pub(in super::super) ephemeral_owner: i64,
}

impl NodeRequest {
    /// Appends the request with this xid. If `is_private`, only the user of this session may use the created
    /// nodes.
    pub(super) fn encode(&self, xid: i32, is_private: bool, bytes: &mut Vec<u8>) {
        let mut out = OutputArchive::begin(bytes);
        out.int(xid).int(self.opcode());
        match self {
            Self::Create { path, data, mode } => {
                encode_create(&mut out, path, Some(data), is_private, *mode);
            }
            Self::CreateCell { path } => {
                encode_create(&mut out, path, None, is_private, CreateMode::Persistent);
            }
            Self::Delete { path } => drop(out.text(path).int(ANY_VERSION)),
            Self::GetData { path, watch } | Self::GetCell { path, watch } => {
                out.text(path).bool(*watch);
            }
            Self::SetData { path, data, version } => drop(out.text(path).buffer(data).int(*version)),
            Self::SetCell { path, data, version } => {
                out.text(path).nullable(data.as_deref()).int(*version);
            }
            Self::GetChildren { path } => drop(out.text(path).bool(false)),
            Self::Sync { path } => drop(out.text(path)),
        }
        out.end();
    }

    fn opcode(&self) -> i32 {
        match self {
            Self::Create { mode: CreateMode::Container, .. } => CREATE_CONTAINER,
            Self::Create { .. } | Self::CreateCell { .. } => CREATE2,
            Self::Delete { .. } => DELETE,
            Self::GetData { .. } | Self::GetCell { .. } => GET_DATA,
            Self::SetData { .. } | Self::SetCell { .. } => SET_DATA,
            Self::GetChildren { .. } => GET_CHILDREN,
            Self::Sync { .. } => SYNC,
        }
    }

    /// A heartbeat: a `sync`, which the leader answers through the connected server. So the leader learns
    /// that the session lives, and the server is up to date afterwards. A `ping` would not do: a server
    /// answers it alone, also if it was cut off from the leader and the leader has long ended the session.
    pub(super) fn heartbeat() -> Self {
        Self::Sync { path: "/".to_owned() }
    }

    /// Whether the leader answers the request, so that the reply shows that the session lives. The connected
    /// server answers all other requests alone.
    pub(super) fn is_answered_by_leader(&self) -> bool {
        self.is_write() || matches!(self, Self::Sync { .. })
    }

    /// Whether the request can change the stored data.
    pub(in super::super) fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::GetData { .. } | Self::GetCell { .. } | Self::GetChildren { .. } | Self::Sync { .. }
        )
    }

    pub(super) fn parse_reply(&self, message: &mut InputArchive<'_>) -> Option<Reply> {
        Some(match self {
            Self::GetCell { .. } => {
                let data = message.nullable()?.map(<[u8]>::to_vec);
                Reply::Cell { data, stat: Stat::parse(message)? }
            }
            Self::SetCell { .. } => Reply::Written(Stat::parse(message)?),
            Self::Create { .. } | Self::CreateCell { .. } => {
                Reply::Created { path: message.text()?, stat: Stat::parse(message)? }
            }
            Self::GetData { .. } => {
                Reply::Node { data: message.buffer()?.to_vec(), stat: Stat::parse(message)? }
            }
            Self::GetChildren { .. } => Reply::Children(message.text_list()?),
            Self::Delete { .. } | Self::SetData { .. } | Self::Sync { .. } => Reply::Done,
        })
    }
}

fn encode_create(
    out: &mut OutputArchive<'_>,
    path: &str,
    data: Option<&[u8]>,
    is_private: bool,
    mode: CreateMode,
) {
    let (scheme, id) = if is_private { ("auth", "") } else { ("world", "anyone") };
    out.text(path).nullable(data);
    out.int(1).int(PERMS_ALL).text(scheme).text(id);
    out.int(mode as i32);
}

impl Stat {
    fn parse(message: &mut InputArchive<'_>) -> Option<Self> {
        let (czxid, _mzxid, ctime, _mtime) =
            (message.long()?, message.long()?, message.long()?, message.long()?);
        let (version, _cversion, _aversion) = (message.int()?, message.int()?, message.int()?);
        Some(Self { czxid, ctime, version, ephemeral_owner: message.long()? })
    }
}
