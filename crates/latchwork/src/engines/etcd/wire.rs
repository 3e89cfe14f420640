//! The few messages of etcd's protocol that a lock needs, by hand: no compiler of protocols is needed to build.
//!
//! Numbers and names are etcd's (`rpc.proto`, `kv.proto` of its API version 3). What is not read is left out: an unknown
//! field is skipped.

use prost::{Message, Oneof};

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const DELETE: &str = "/etcdserverpb.KV/DeleteRange";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
pub(super) const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// One key with its value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

/// By creation, in a range or a compare.
pub(super) const BY_CREATION: i32 = 2;
pub(super) const ASCENDING: i32 = 1;
pub(super) const DESCENDING: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int32, tag = "5")]
    pub(super) sort_order: i32,
    #[prost(int32, tag = "6")]
    pub(super) sort_target: i32,
    #[prost(int64, tag = "12")]
    pub(super) min_create_revision: i64,
    #[prost(int64, tag = "13")]
    pub(super) max_create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
    #[prost(bool, tag = "5")]
    pub(super) ignore_value: bool,
    #[prost(bool, tag = "6")]
    pub(super) ignore_lease: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteResponse {
    #[prost(int64, tag = "2")]
    pub(super) deleted: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    pub(super) operation: Option<Operation>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRequest),
}

impl From<Operation> for RequestOp {
    fn from(operation: Operation) -> Self {
        Self { operation: Some(operation) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(oneof = "Outcome", tags = "1, 2, 3")]
    pub(super) outcome: Option<Outcome>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Outcome {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteResponse),
}

/// Whether the keys were created, or changed last, in this revision; 0: whether there are none. Compares nothing else.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    /// 1: by the revision of creation, 2: of the last change.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    /// Always sent: a choice that is left out is none.
    #[prost(int64, optional, tag = "5")]
    create_revision: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
    #[prost(bytes = "vec", tag = "64")]
    range_end: Vec<u8>,
}

impl Compare {
    /// The key was created in this revision, 0: it is not there.
    pub(super) fn created_in(key: Vec<u8>, revision: i64) -> Self {
        Self { target: 1, key, create_revision: Some(revision), ..Self::default() }
    }

    /// The key was changed last in this revision, 0: it is not there.
    pub(super) fn changed_in(key: Vec<u8>, revision: i64) -> Self {
        Self { target: 2, key, mod_revision: Some(revision), ..Self::default() }
    }

    /// There is no key from `from` up to but not including `end`.
    pub(super) fn none_in((from, end): (Vec<u8>, Vec<u8>)) -> Self {
        Self { target: 1, key: from, create_revision: Some(0), mod_revision: None, range_end: end }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

impl TxnResponse {
    /// What the ranges of the branch that was taken found, in their order.
    pub(super) fn ranges(self) -> impl Iterator<Item = RangeResponse> {
        self.responses.into_iter().filter_map(|response| match response.outcome {
            Some(Outcome::Range(range)) => Some(range),
            _ => None,
        })
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "Order", tags = "1, 2")]
    pub(super) order: Option<Order>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Order {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    /// Zero: from now on.
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    #[prost(int64, tag = "7")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

/// The kind of an event that is no deletion.
pub(super) const PUT: i32 = 0;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// 0: put, 1: deleted.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseKeepAliveResponse {
    /// 0 and less: there is no such lease.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseTimeToLiveRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
    #[prost(bool, tag = "2")]
    pub(super) keys: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseTimeToLiveResponse {
    /// Seconds that are left; less than 0: there is no such lease.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(super) keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(super) version: String,
    /// 0: there is none.
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
}
