//! The transport that the engines of servers share.
//!
//! | file | what |
//! |---|---|
//! | `dial` | connects to a host by its name |
//! | `deadline` | how long a client waits for a server: every limit of a connection |
//! | `tls` | the TLS configuration of a URL, and the handshake |
//! | `tls_failure` | what is wrong when TLS fails, and what to do about it |
//! | `connection_error` | why a connection ended, or could not be opened |
//! | `byte_stream` | a stream of bytes, plain or encrypted |
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
pub(crate) mod byte_stream;
pub(crate) mod connection_error;
pub(crate) mod deadline;
pub(crate) mod dial;
pub(crate) mod own_thread;
pub(crate) mod per_runtime;
pub(crate) mod pipeline;
pub(crate) mod tls;
pub(crate) mod tls_failure;
