//! How long a client waits for a server that does not answer: every limit of the engines' connections.
//!
//! The operating system reports a server that is cut off without a closed connection only after many minutes.
//! Each limit is shorter than what waits behind it: a lease, the core's limit for a request
//! ([`REQUEST_LIMIT`](crate::core::defaults::REQUEST_LIMIT), which bounds all of these as well), or the next
//! server of a list.
//!
//! | limit | engines | a server that |
//! |---|---|---|
//! | [`CONNECT`] | all but etcd | accepts no connection, or does not finish the handshake |
//! | [`ETCD_CONNECT`], [`ETCD_CONNECT_WITH_OTHERS`] | etcd | the same, as a member of a cluster |
//! | [`ETCD_AUTHENTICATE`] | etcd | does not check the password |
//! | [`ETCD_REPLY_WITH_OTHERS`] | etcd | leaves a request unanswered, where others can be asked |
//! | [`ZOOKEEPER_LEAST`] | ZooKeeper | does not open a session, where others can be asked |
//! | [`ZOOKEEPER_CLOSE`] | ZooKeeper | does not answer the end of a session |
//! | [`NEXT_ADDRESS`] | all | does not answer at one of several addresses |
//! | [`SLOW_REPLY`] | all with a pipeline | leaves a request unanswered that was cancelled |

use std::time::Duration;

/// For connecting, and then for the handshake: TLS, authentication, what the client asks about the server
/// first. MySQL, PostgreSQL and memcached have it for both together. Long enough for the two lost packets
/// that TCP repeats after 1 s and 2 s more; half of the core's limit for a request, so that the core's error
/// is not the one that is reported.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// For connecting to a member of an etcd cluster if no other member can be used.
#[cfg(feature = "etcd")]
pub(crate) const ETCD_CONNECT: Duration = Duration::from_secs(2);

/// For connecting to a member of an etcd cluster before the next one is tried. Keep-alives must not wait for
/// a hung member.
#[cfg(feature = "etcd")]
pub(crate) const ETCD_CONNECT_WITH_OTHERS: Duration = Duration::from_millis(500);

/// For the check of a password, which is slow on purpose (bcrypt), and slower on a busy member.
#[cfg(feature = "etcd")]
pub(crate) const ETCD_AUTHENTICATE: Duration = Duration::from_secs(15);

/// For the reply of a member where there are others to ask: longer than an election, and shorter than the
/// time after which the core takes the cluster for hung.
#[cfg(feature = "etcd")]
pub(crate) const ETCD_REPLY_WITH_OTHERS: Duration = Duration::from_secs(3);

/// The least for one of several ZooKeeper servers, however short the session's timeout is: a handshake takes
/// its time. The most is [`CONNECT`].
#[cfg(feature = "zookeeper")]
pub(crate) const ZOOKEEPER_LEAST: Duration = Duration::from_millis(500);

/// For closing a ZooKeeper session. A session that is not closed in time ends with its timeout.
#[cfg(feature = "zookeeper")]
pub(crate) const ZOOKEEPER_CLOSE: Duration = Duration::from_secs(1);

/// From then on, an address that is silent no longer holds up the next one of the same host (RFC 8305 has the
/// same number).
pub(crate) const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// A caller may cancel at any time, which says nothing about the connection. Cancelled after this time
/// without a reply, it does: no other caller may be left to notice.
pub(crate) const SLOW_REPLY: Duration = Duration::from_millis(900);
