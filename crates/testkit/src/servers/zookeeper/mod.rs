//! ZooKeeper servers of one test: Debian's, alone or as an ensemble whose members can be stopped, killed and restarted.

mod admin;
mod member;
mod meter;
mod options;
#[cfg(test)]
mod tests;
mod thief;
mod wire;
mod words;

use member::{GLANCE, START_LIMIT};

pub use admin::ZooKeeperAdmin;
pub use member::ZooKeeperMember;
pub use meter::ZooKeeperMeter;
pub use options::ZooKeeperOptions;

use latchwork::clock::Clock;

use super::Certificates;
use super::pool::Pooled;
use super::port::free_port;

/// How many sets of ports are tried before somebody must look into it.
const MOST_PORTS: u32 = 20;

/// A running server or ensemble. Killed when dropped.
pub struct ZooKeeperServer {
    members: Vec<ZooKeeperMember>,
    options: ZooKeeperOptions,
}

/// The ports of a member, all on 127.0.0.1.
#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    secure: u16,
    peer: u16,
    election: u16,
}

impl Ports {
    fn free() -> Self {
        let [client, secure, peer, election] = [(); 4].map(|()| free_port());
        Self { client, secure, peer, election }
    }
}

impl ZooKeeperServer {
    /// Starts all members and waits until they serve clients.
    ///
    /// # Panics
    /// If they do not; with what they printed.
    pub fn start(options: ZooKeeperOptions) -> Self {
        let count = options.members.max(1);
        for _ in 0..MOST_PORTS {
            let ports: Vec<_> = (0..count).map(|_| Ports::free()).collect();
            let prepare = |number| ZooKeeperMember::prepare(&options, number, &ports);
            let members: Vec<_> = (0..count).map(prepare).collect();
            members.iter().for_each(ZooKeeperMember::launch);
            if members.iter().all(|member| member.until_it_serves().is_ok()) {
                return Self { members, options };
            }
        }
        panic!("{MOST_PORTS} sets of ports were free and taken the next moment");
    }

    /// The members; one, if it is alone.
    pub fn members(&self) -> &[ZooKeeperMember] {
        &self.members
    }

    /// The certificates of one that speaks TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.options.tls.as_ref()
    }

    /// Waits until all members that run serve clients and, where there are several, one of them leads.
    ///
    /// # Panics
    /// If they do not.
    pub fn until_healthy(&self) {
        let end = Clock::boottime().now().after(START_LIMIT);
        let serve = || self.members.iter().all(|member| !member.runs() || member.serves());
        while !(serve() && (self.members.len() == 1 || self.leader().is_some())) {
            assert!(Clock::boottime().now() < end, "they do not get well:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
    }

    fn output(&self) -> String {
        let told = |member: &ZooKeeperMember| format!("{:?}\n{}", member.word("srvr"), member.output());
        self.members.iter().map(told).collect::<Vec<_>>().join("\n---\n")
    }

    /// The member that leads the others.
    pub fn leader(&self) -> Option<&ZooKeeperMember> {
        self.members.iter().find(|member| member.is_leader())
    }
}

impl Pooled for ZooKeeperServer {
    fn is_healthy(&self) -> bool {
        self.members.iter().all(ZooKeeperMember::serves)
    }
}
