//! The addresses of a member.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::servers::port::free_port;

/// The name and the ports of one member, all on 127.0.0.1.
pub(super) struct MemberAddress {
    pub(super) name: String,
    pub(super) client: u16,
    pub(super) peer: u16,
    pub(super) figures: u16,
    /// The port on which other members find it: its own peer port, or a proxy's.
    pub(super) advertised: u16,
    /// All members and their peer addresses, in the form of `--initial-cluster`.
    pub(super) cluster: String,
    /// The id of its process; zero if it does not run.
    pub(super) pid: Arc<AtomicU32>,
}

impl MemberAddress {
    /// A member on free ports that knows only itself so far.
    pub(super) fn new(name: String) -> Self {
        let [client, peer, figures] = [(); 3].map(|()| free_port());
        let cluster = format!("{name}=http://127.0.0.1:{peer}");
        Self { name, client, peer, figures, advertised: peer, cluster, pid: Arc::default() }
    }

    /// Whether it is the only member.
    pub(super) fn is_alone(&self) -> bool {
        !self.cluster.contains(',')
    }

    /// The member's part in [`MemberAddress::cluster`].
    pub(super) fn introduction(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.advertised)
    }

    pub(super) fn arguments(&self, scheme: &str) -> [String; 7] {
        let Self { name, client, peer, figures, advertised, cluster, .. } = self;
        [
            format!("--name={name}"),
            format!("--listen-client-urls={scheme}://127.0.0.1:{client}"),
            format!("--advertise-client-urls={scheme}://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{advertised}"),
            format!("--initial-cluster={cluster}"),
            format!("--listen-metrics-urls=http://127.0.0.1:{figures}"),
        ]
    }
}
