//! Three members that are one etcd.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork::clock::Clock;

use super::place::Place;
use super::{EtcdOptions, EtcdServer, Etcdctl, GLANCE, MOST_PORTS, PortTaken, START_LIMIT};
use crate::proxy::Junction;
use crate::servers::pool::Pooled;

const SIZE: usize = 3;
/// How long a connection between members may be known to the system before its process is known here.
const STRANGERS: u32 = 20;

/// Three members on ports of 127.0.0.1. Killed when dropped.
pub struct EtcdCluster {
    members: [EtcdServer; SIZE],
    /// In front of each member, where the others find it. None in a cluster that cannot be divided.
    junctions: Vec<Junction>,
    cut_off: Mutex<[bool; SIZE]>,
}

impl EtcdCluster {
    /// Starts all members at once and waits until they are healthy.
    ///
    /// # Panics
    /// If they do not become so; with what one of them printed.
    pub fn start(options: EtcdOptions) -> Self {
        Self::start_with(&options, |_| Vec::new())
    }

    /// The same, with something between the members that can divide them. All that they say takes longer.
    ///
    /// # Panics
    /// As [`EtcdCluster::start`].
    pub fn start_divisible(options: EtcdOptions) -> Self {
        Self::start_with(&options, |places| {
            let pids = places.each_ref().map(|place| place.pid.clone());
            let junctions = places.each_mut().map(|place| {
                let address = (Ipv4Addr::LOCALHOST, place.peer).into();
                let pids = pids.clone();
                let junction = Junction::to(address, SIZE, move |client| member_at(client, &pids));
                place.advertised = junction.address().port();
                junction
            });
            junctions.into()
        })
    }

    fn start_with(options: &EtcdOptions, between: fn(&mut [Place; SIZE]) -> Vec<Junction>) -> Self {
        for _ in 0..MOST_PORTS {
            let mut places = [0, 1, 2].map(|index| Place::new(format!("n{index}")));
            let junctions = between(&mut places);
            let cluster = places.each_ref().map(Place::introduction).join(",");
            let members = places.map(|mut place| {
                place.cluster.clone_from(&cluster);
                EtcdServer::prepare(place, options.clone())
            });
            let cluster = Self { members, junctions, cut_off: Mutex::default() };
            if cluster.launch().is_ok() {
                super::close(&cluster.addresses(), options);
                return cluster;
            }
        }
        panic!("{MOST_PORTS} times ports were free and taken the next moment");
    }

    /// One of the members.
    pub fn member(&self, index: usize) -> &EtcdServer {
        &self.members[index]
    }

    /// All of them.
    pub fn members(&self) -> &[EtcdServer] {
        &self.members
    }

    /// Where clients find the members.
    pub fn addresses(&self) -> [SocketAddr; SIZE] {
        self.members.each_ref().map(EtcdServer::address)
    }

    /// Which member leads those that run and are not cut off. Waits until there is one and no other.
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
    /// If that takes long; with what one of them printed.
    pub fn until_healthy(&self) {
        for index in self.together() {
            let healthy = self.members[index].until(Pooled::is_healthy);
            assert!(healthy.is_ok(), "a port of member {index} was taken");
        }
    }

    /// Closes all connections between this member and the others, and refuses new ones. Clients can reach it.
    ///
    /// # Panics
    /// If the cluster was not started to be divided.
    pub fn cut_off(&self, index: usize) {
        self.divide(index, true);
    }

    /// Ends [`EtcdCluster::cut_off`].
    ///
    /// # Panics
    /// If the cluster was not started to be divided.
    pub fn heal(&self, index: usize) {
        self.divide(index, false);
    }

    /// How many connections there are between this member and the others, whoever made them.
    ///
    /// # Panics
    /// If the cluster was not started to be divided.
    pub fn connections(&self, index: usize) -> usize {
        lanes(index).map(|(from, to)| self.junctions[to].connections(from)).sum()
    }

    /// Runs `etcdctl` on all members, as one who may do everything.
    ///
    /// # Panics
    /// If it fails; with what it said.
    pub fn etcdctl(&self, words: &[&str]) -> String {
        self.owner().run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// `etcdctl` as one who may do everything, for all members.
    pub fn owner(&self) -> Etcdctl {
        super::owner(&self.addresses(), self.members[0].options())
    }

    /// As [`EtcdServer::calls`], of the members that run. Each call counts once: members do not use them to talk.
    pub fn calls(&self, methods: &[&str]) -> u64 {
        self.members.iter().filter(|member| member.runs()).map(|member| member.calls(methods)).sum()
    }

    fn launch(&self) -> Result<(), PortTaken> {
        self.members.iter().for_each(EtcdServer::spawn);
        self.members.iter().try_for_each(|member| member.until(Pooled::is_healthy))
    }

    fn divide(&self, index: usize, divided: bool) {
        assert!(!self.junctions.is_empty(), "it was not started to be divided");
        let mut cut_off = self.divided();
        cut_off[index] = divided;
        for (from, to) in lanes(index) {
            // One that is healed stays apart from others that are still cut off.
            self.junctions[to].refuse(from, cut_off[from] || cut_off[to]);
        }
    }

    /// The members that run and can reach the others.
    fn together(&self) -> impl Iterator<Item = usize> {
        let cut_off = *self.divided();
        (0..SIZE).filter(move |index| self.members[*index].runs() && !cut_off[*index])
    }

    fn divided(&self) -> MutexGuard<'_, [bool; SIZE]> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pooled for EtcdCluster {
    fn is_healthy(&self) -> bool {
        self.members.iter().all(Pooled::is_healthy)
    }
}

/// The ways from and to a member, by who is at both ends.
fn lanes(index: usize) -> impl Iterator<Item = (usize, usize)> {
    let others = (0..SIZE).filter(move |other| *other != index);
    others.flat_map(move |other| [(index, other), (other, index)])
}

/// Which member has the connection that comes from this address. All come from 127.0.0.1, and not all say who they are,
/// but the system knows.
fn member_at(client: SocketAddr, pids: &[Arc<AtomicU32>]) -> Option<usize> {
    (0..STRANGERS).find_map(|_| {
        let socket = format!("socket:[{}]", inode_of(client.port())?);
        let found = pids.iter().position(|pid| has_open(pid.load(Ordering::Relaxed), Path::new(&socket)));
        if found.is_none() {
            // A process that has just started.
            std::thread::sleep(Duration::from_millis(1));
        }
        found
    })
}

/// The system's number for the socket that a connection from this port of 127.0.0.1 belongs to.
fn inode_of(port: u16) -> Option<String> {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the system lists them");
    let address = format!("0100007F:{port:04X}");
    let columns = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut ours = columns.filter(|columns| columns.get(1).is_some_and(|local| *local == address));
    // A socket that nobody has any more is number zero.
    ours.find_map(|columns| columns.get(9).filter(|inode| **inode != "0").map(|inode| (*inode).to_owned()))
}

fn has_open(pid: u32, file: &Path) -> bool {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|is| is == file)
}
