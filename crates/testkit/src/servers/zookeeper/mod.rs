//! ZooKeeper servers of one test: Debian's, alone or as an ensemble whose members can be paused, killed and
//! restarted.

mod admin;
mod admin_connection;
mod jute;
mod member;
mod member_links;
mod meter;
mod options;
#[cfg(test)]
mod tests;
mod thief;

use member::{GLANCE, START_LIMIT};
use member_links::MemberLinks;

pub use admin::ZooKeeperAdmin;
pub use member::ZooKeeperMember;
pub use meter::ZooKeeperMeter;
pub use options::ZooKeeperOptions;

use std::net::{Ipv4Addr, SocketAddr};

use latchwork::clock::Clock;

use super::Certificates;
use super::division::Division;
use super::pool::Pooled;
use super::port::free_port;

/// The number of sets of ports to try before the start fails.
const MOST_PORTS: u32 = 20;

/// A running server or ensemble. Killed when dropped.
pub struct ZooKeeperServer {
    members: Vec<ZooKeeperMember>,
    options: ZooKeeperOptions,
    /// The links between the members, if they can be divided.
    ways: Option<MemberLinks>,
    division: Division,
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

    fn address(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }
}

impl ZooKeeperServer {
    /// Starts all members and waits until they serve clients.
    ///
    /// # Panics
    /// If they do not in time. The message shows their output.
    pub fn start(options: ZooKeeperOptions) -> Self {
        let count = options.members.max(1);
        for _ in 0..MOST_PORTS {
            let ports: Vec<_> = (0..count).map(|_| Ports::free()).collect();
            let ways = options.is_divisible.then(|| MemberLinks::between(&ports));
            let seen_from =
                |number| ways.as_ref().map_or(ports.clone(), |ways| ways.seen_from(number, &ports));
            let prepare = |number| ZooKeeperMember::prepare(&options, number, &seen_from(number));
            let members: Vec<_> = (0..count).map(prepare).collect();
            members.iter().for_each(ZooKeeperMember::launch);
            if members.iter().all(|member| member.until_it_serves().is_ok()) {
                return Self { members, options, ways, division: Division::default() };
            }
        }
        panic!("{MOST_PORTS} times, a set of free ports was taken before the start");
    }

    /// The members; one, for a single server.
    pub fn members(&self) -> &[ZooKeeperMember] {
        &self.members
    }

    /// The certificates of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.options.tls.as_ref()
    }

    /// Waits until all members that run and are not cut off serve clients. In an ensemble, also until one of
    /// them leads.
    ///
    /// # Panics
    /// If they do not.
    pub fn until_healthy(&self) {
        let end = Clock::boottime().now().after(START_LIMIT);
        let serve = || self.together().all(ZooKeeperMember::serves);
        while !(serve() && (self.members.len() == 1 || self.leader().is_some())) {
            assert!(Clock::boottime().now() < end, "the members do not become healthy:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
    }

    fn output(&self) -> String {
        let told = |member: &ZooKeeperMember| format!("{:?}\n{}", member.word("srvr"), member.output());
        self.members.iter().map(told).collect::<Vec<_>>().join("\n---\n")
    }

    /// The leader of the members that are not cut off.
    pub fn leader(&self) -> Option<&ZooKeeperMember> {
        self.together().find(|member| member.is_leader())
    }

    /// Blocks all traffic between this member and the others, in both directions. Their connections stay
    /// open, as in a network that is divided. Clients can still reach the member.
    ///
    /// # Panics
    /// If they were started without links that can be divided.
    pub fn cut_off(&self, index: usize) {
        self.divide(index, true);
    }

    /// Ends [`ZooKeeperServer::cut_off`]. Traffic sent meanwhile arrives late.
    ///
    /// # Panics
    /// If they were started without links that can be divided.
    pub fn heal(&self, index: usize) {
        self.divide(index, false);
    }

    fn divide(&self, index: usize, divided: bool) {
        let ways = self.ways.as_ref().expect("the members can be divided");
        self.division
            .change(index, divided, self.members.len(), |from, to, is_held| ways.hold(from, to, is_held));
    }

    /// The members that run and can reach the others.
    fn together(&self) -> impl Iterator<Item = &ZooKeeperMember> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(index, member)| member.runs() && !self.division.is_cut_off(*index))
            .map(|(_, member)| member)
    }
}

impl Pooled for ZooKeeperServer {
    fn is_healthy(&self) -> bool {
        self.members.iter().all(ZooKeeperMember::serves)
    }
}
