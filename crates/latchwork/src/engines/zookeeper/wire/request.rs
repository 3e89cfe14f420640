//! What can be asked of a server, and its answers.

use super::jute::{In, Out};

/// Everything may be done with the node.
const ALL: i32 = 31;

/// One request.
#[derive(Clone, Debug)]
pub(in super::super) enum Request {
    /// Makes a node. For a sequential one, the server adds ten digits to the path.
    Create { path: String, data: Vec<u8>, kind: Create },
    /// Removes a node, whatever its version is.
    Delete { path: String },
    /// Reads a node. With a watch, the next change is told.
    Read { path: String, watch: bool },
    /// Writes a node of this version.
    Write { path: String, data: Vec<u8>, version: i32 },
    /// Makes a node without data, which is not the same as empty data.
    MakeCell { path: String },
    /// Reads a node, and tells the one from the other.
    ReadCell { path: String, watch: bool },
    /// Writes a node of this version, or takes its data away.
    WriteCell { path: String, data: Option<Vec<u8>>, version: i32 },
    /// Lists the children of a node.
    Children { path: String },
    /// What is asked after this sees everything that was done before it, on whichever server.
    Sync { path: String },
}

/// What kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Create {
    Persistent = 0,
    Ephemeral = 1,
    EphemeralSequential = 3,
    Container = 4,
}

/// The answer to a request that was carried out.
#[derive(Clone, Debug)]
pub(in super::super) enum Reply {
    Created { path: String, stat: Stat },
    Node { data: Vec<u8>, stat: Stat },
    Cell { data: Option<Vec<u8>>, stat: Stat },
    Written(Stat),
    Children(Vec<String>),
    Done,
}

/// What the server knows of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Stat {
    /// The transaction that made it.
    pub(in super::super) czxid: i64,
    /// When that was, in milliseconds since 1970.
    pub(in super::super) ctime: i64,
    /// How often it was written.
    pub(in super::super) version: i32,
    /// The session that it ends with; zero if it outlives its session.
    pub(in super::super) owner: i64,
}

impl Request {
    /// Writes it as request number `xid`. Nodes are made for everybody, or only for the user of this session.
    pub(super) fn write(&self, xid: i32, is_private: bool, bytes: &mut Vec<u8>) {
        let mut out = Out::begin(bytes);
        out.int(xid).int(self.code());
        match self {
            Self::Create { path, data, kind } => {
                create(&mut out, path, Some(data), is_private, *kind);
            }
            Self::MakeCell { path } => create(&mut out, path, None, is_private, Create::Persistent),
            Self::ReadCell { path, watch } => drop(out.text(path).flag(*watch)),
            Self::WriteCell { path, data, version } => {
                out.text(path).nullable(data.as_deref()).int(*version);
            }
            Self::Delete { path } => drop(out.text(path).int(-1)),
            Self::Read { path, watch } => drop(out.text(path).flag(*watch)),
            Self::Write { path, data, version } => drop(out.text(path).buffer(data).int(*version)),
            Self::Children { path } => drop(out.text(path).flag(false)),
            Self::Sync { path } => drop(out.text(path)),
        }
        out.end();
    }

    fn code(&self) -> i32 {
        match self {
            Self::Create { kind: Create::Container, .. } => 19,
            Self::Create { .. } | Self::MakeCell { .. } => 15,
            Self::Delete { .. } => 2,
            Self::Read { .. } | Self::ReadCell { .. } => 4,
            Self::Write { .. } | Self::WriteCell { .. } => 5,
            Self::Children { .. } => 8,
            Self::Sync { .. } => 9,
        }
    }

    /// Answered by the leader, through the member: so it is a sign of life that the leader hears of, and the
    /// member is not behind afterwards. A member answers a ping by itself, also when the leader has long
    /// ended the session and the member was cut off before it could be told.
    pub(in super::super) fn sync() -> Self {
        Self::Sync { path: "/".to_owned() }
    }

    /// Whether the leader decides on it, so that the answer says that the session lives. All else a member answers by itself.
    pub(super) fn is_answered_by_the_leader(&self) -> bool {
        self.changes_something() || matches!(self, Self::Sync { .. })
    }

    /// Whether it can change what is stored.
    pub(in super::super) fn changes_something(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::ReadCell { .. } | Self::Children { .. } | Self::Sync { .. })
    }

    /// Reads the answer to it.
    pub(super) fn reply(&self, message: &mut In<'_>) -> Option<Reply> {
        Some(match self {
            Self::ReadCell { .. } => {
                let data = message.nullable()?.map(<[u8]>::to_vec);
                Reply::Cell { data, stat: Stat::read(message)? }
            }
            Self::WriteCell { .. } => Reply::Written(Stat::read(message)?),
            Self::Create { .. } | Self::MakeCell { .. } => {
                Reply::Created { path: message.text()?, stat: Stat::read(message)? }
            }
            Self::Read { .. } => Reply::Node { data: message.buffer()?.to_vec(), stat: Stat::read(message)? },
            Self::Children { .. } => Reply::Children(message.texts()?),
            Self::Delete { .. } | Self::Write { .. } | Self::Sync { .. } => Reply::Done,
        })
    }
}

fn create(out: &mut Out<'_>, path: &str, data: Option<&[u8]>, is_private: bool, kind: Create) {
    let (scheme, id) = if is_private { ("auth", "") } else { ("world", "anyone") };
    out.text(path).nullable(data);
    out.int(1).int(ALL).text(scheme).text(id);
    out.int(kind as i32);
}

impl Stat {
    fn read(message: &mut In<'_>) -> Option<Self> {
        let (czxid, _mzxid, ctime, _mtime) =
            (message.long()?, message.long()?, message.long()?, message.long()?);
        let (version, _cversion, _aversion) = (message.int()?, message.int()?, message.int()?);
        Some(Self { czxid, ctime, version, owner: message.long()? })
    }
}
