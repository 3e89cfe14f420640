//! The service `Maintenance`.

use prost::Message;

pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// The id of the leader. 0: the member knows no leader.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
}
