//! Free ports.

use std::net::{Ipv4Addr, TcpListener};

use latchwork::clock;

use crate::seed::Seed;

/// Below the range from which the system takes the ports of outgoing connections. So a server that was down
/// for a while finds its port free on restart, and a client that keeps reconnecting never connects to itself.
const FIRST: u64 = 10_000;
const COUNT: u64 = 22_000;

/// A server did not start, because another process listens on its port.
pub(super) struct PortTaken;

/// A port of 127.0.0.1 that is free now. Another process may take it before it is used.
pub(crate) fn free_port() -> u16 {
    let mut seed = Seed::new(u64::from_ne_bytes(clock::random_bytes()));
    let drawn = (0..COUNT).map(|_| (FIRST + seed.below(COUNT)) as u16);
    let mut free = drawn.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.next().expect("a port is free")
}
