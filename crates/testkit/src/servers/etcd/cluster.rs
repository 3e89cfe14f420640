//! An etcd cluster of three members.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use latchwork::clock::Clock;

use super::member_address::MemberAddress;
use super::{EtcdOptions, EtcdServer, Etcdctl, GLANCE, MOST_PORTS, PortTaken, START_LIMIT};
use crate::network::proxy::Junction;
use crate::servers::division::Division;
use crate::servers::pool::Pooled;

const SIZE: usize = 3;
/// How often the owner of a connection is looked up: the system may know the connection before its process is
/// known here.
const STRANGERS: u32 = 20;

/// Three members on ports of 127.0.0.1. Killed when dropped.
pub struct EtcdCluster {
    members: [EtcdServer; SIZE],
    /// In front of each member, at the address that the other members use. Empty in a cluster that cannot be
    /// divided.
    junctions: Vec<Junction>,
    division: Division,
}

impl EtcdCluster {
    /// Starts all members at once and waits until they are healthy.
    ///
    /// # Panics
    /// If they do not become healthy. The message shows the output of one of them.
    pub fn start(options: EtcdOptions) -> Self {
        Self::start_with(&options, |_| Vec::new())
    }

    /// Starts a cluster with junctions between the members, which can divide them. All traffic between
    /// members takes longer.
    ///
    /// # Panics
    /// As [`EtcdCluster::start`].
    pub fn start_divisible(options: EtcdOptions) -> Self {
        Self::start_with(&options, |places| {
            let pids = places.each_ref().map(|place| place.pid.clone());
            let junctions = places.each_mut().map(|place| {
                let address = (Ipv4Addr::LOCALHOST, place.peer).into();
                let pids = pids.clone();
                let junction = Junction::to(address, SIZE, move |ends| member_at(ends, &pids));
                place.advertised = junction.address().port();
                junction
            });
            junctions.into()
        })
    }

    fn start_with(options: &EtcdOptions, between: fn(&mut [MemberAddress; SIZE]) -> Vec<Junction>) -> Self {
        for _ in 0..MOST_PORTS {
            let mut places = [0, 1, 2].map(|index| MemberAddress::new(format!("n{index}")));
            let junctions = between(&mut places);
            let cluster = places.each_ref().map(MemberAddress::introduction).join(",");
            let members = places.map(|mut place| {
                place.cluster.clone_from(&cluster);
                EtcdServer::prepare(place, options.clone())
            });
            let cluster = Self { members, junctions, division: Division::default() };
            if cluster.launch().is_ok() {
                super::close(&cluster.addresses(), options);
                return cluster;
            }
        }
        panic!("{MOST_PORTS} times, free ports were taken before the start");
    }

    /// One of the members.
    pub fn member(&self, index: usize) -> &EtcdServer {
        &self.members[index]
    }

    /// All of them.
    pub fn members(&self) -> &[EtcdServer] {
        &self.members
    }

    /// The addresses for clients.
    pub fn addresses(&self) -> [SocketAddr; SIZE] {
        self.members.each_ref().map(EtcdServer::address)
    }

    /// The leader of the members that run and are not cut off. Waits until there is exactly one.
    ///
    /// # Panics
    /// If there is none for long.
    pub fn leader(&self) -> usize {
        let begun = Clock::boottime().now();
        loop {
            let leading: Vec<_> = self.together().filter(|index| self.members[*index].leads()).collect();
            if let [leader] = leading[..] {
                return leader;
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "these lead: {leading:?}");
            std::thread::sleep(GLANCE);
        }
    }

    /// Waits until every member that runs and is not cut off is healthy: it knows a leader, and can commit.
    ///
    /// # Panics
    /// If that takes long. The message shows the output of one of them.
    pub fn until_healthy(&self) {
        for index in self.together() {
            let healthy = self.members[index].until(Pooled::is_healthy);
            assert!(healthy.is_ok(), "a port of member {index} was taken");
        }
    }

    /// Blocks all traffic between this member and the others, in both directions. Their connections stay
    /// open, as in a network that is divided. Clients can still reach the member.
    ///
    /// # Panics
    /// If the cluster was started without junctions.
    pub fn cut_off(&self, index: usize) {
        self.divide(index, true);
    }

    /// Ends [`EtcdCluster::cut_off`]. Traffic sent meanwhile arrives late.
    ///
    /// # Panics
    /// If the cluster was started without junctions.
    pub fn heal(&self, index: usize) {
        self.divide(index, false);
    }

    /// Runs `etcdctl` on all members, with all rights.
    ///
    /// # Panics
    /// If it fails. The message shows its output.
    pub fn etcdctl(&self, words: &[&str]) -> String {
        self.owner().run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// `etcdctl` with all rights, for all members.
    pub fn owner(&self) -> Etcdctl {
        super::owner(&self.addresses(), self.members[0].options())
    }

    /// As [`EtcdServer::calls`], for the members that run. Each call counts once, because members do not use
    /// these methods among themselves.
    pub fn calls(&self, methods: &[&str]) -> u64 {
        self.members.iter().filter(|member| member.runs()).map(|member| member.calls(methods)).sum()
    }

    fn launch(&self) -> Result<(), PortTaken> {
        self.members.iter().for_each(EtcdServer::spawn);
        self.members.iter().try_for_each(|member| member.until(Pooled::is_healthy))
    }

    fn divide(&self, index: usize, divided: bool) {
        assert!(!self.junctions.is_empty(), "the cluster was started without junctions");
        let hold = |from, to: usize, is_held| self.junctions[to].black_hole(from, is_held);
        self.division.change(index, divided, SIZE, hold);
    }

    /// The members that run and can reach the others.
    fn together(&self) -> impl Iterator<Item = usize> {
        (0..SIZE).filter(|index| self.members[*index].runs() && !self.division.is_cut_off(*index))
    }
}

impl Pooled for EtcdCluster {
    fn is_healthy(&self) -> bool {
        self.members.iter().all(Pooled::is_healthy)
    }
}

/// The member that has the connection with these ends, the first of which is its own. All connections come
/// from 127.0.0.1, and not all members identify themselves, but the system knows.
fn member_at(ends: [SocketAddr; 2], pids: &[Arc<AtomicU32>]) -> Option<usize> {
    // `None` if the connection is closed already.
    let socket = format!("socket:[{}]", inode_of(ends)?);
    (0..STRANGERS).find_map(|_| {
        let found = pids.iter().position(|pid| has_open(pid.load(Ordering::Relaxed), Path::new(&socket)));
        if found.is_none() {
            // A process that has just started.
            std::thread::sleep(Duration::from_millis(1));
        }
        found
    })
}

/// The inode of the socket at the first end of a connection on 127.0.0.1. Both ends matter: one port can
/// belong to several connections.
fn inode_of(ends: [SocketAddr; 2]) -> Option<String> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the system lists them");
    let [local, remote] = ends.map(|end| format!("0100007F:{:04X}", end.port()));
    let columns = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut ours = columns.filter(|columns| columns.get(1..3) == Some(&[&local[..], &remote[..]]));
    // A socket without an owner has inode zero.
    ours.find_map(|columns| columns.get(9).filter(|inode| **inode != "0").map(|inode| (*inode).to_owned()))
}

fn has_open(pid: u32, file: &Path) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|is| is == file)
}
