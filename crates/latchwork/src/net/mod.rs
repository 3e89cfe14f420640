//! The transport that the engines of servers share.
//!
//! | file | what |
//! |---|---|
//! | `dial` | connects to a host by its name |
//! | `tls` | the TLS configuration of a URL |
//! | `pipeline` | one connection on which many tasks send requests at once |
//! | `per_runtime` | one connection for each runtime of the client |
//! | `abandon` | retires a connection on which a caller gave up waiting |
//! | `own_thread` | a runtime that no user code can block |
#![cfg_attr(
    not(all(
        feature = "etcd",
        feature = "memcached",
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "zookeeper"
    )),
    allow(dead_code, reason = "no engine uses all of it")
)]

pub(crate) mod abandon;
pub(crate) mod dial;
pub(crate) mod own_thread;
pub(crate) mod per_runtime;
pub(crate) mod pipeline;
pub(crate) mod tls;
