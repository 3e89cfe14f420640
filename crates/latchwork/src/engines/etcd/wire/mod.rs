//! The messages of etcd's gRPC protocol that a lock needs. They are written by hand, so that a build needs no
//! protobuf compiler.
//!
//! Tags and names are those of `rpc.proto` and `kv.proto` in etcd's API version 3, one file per service.
//! Fields that the client does not read are left out: prost skips unknown fields.

mod auth;
mod kv;
mod lease;
mod maintenance;
mod watch;

pub(super) use auth::{AUTHENTICATE, AuthenticateRequest, AuthenticateResponse};
pub(super) use kv::{
    Compare, DELETE_RANGE, DeleteRangeRequest, DeleteRangeResponse, KeyValue, Operation, OperationResponse,
    PutRequest, RANGE, RangeRequest, RangeResponse, RequestOp, SortOrder, SortTarget, TXN, TxnRequest,
    TxnResponse,
};
pub(super) use lease::{
    LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_TIME_TO_LIVE, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
pub(super) use maintenance::{STATUS, StatusRequest, StatusResponse};
pub(super) use watch::{
    Event, EventType, WATCH, WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchRequestUnion,
    WatchResponse,
};
