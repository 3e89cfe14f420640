//! The links between members that can be divided.

use std::collections::HashMap;

use super::Ports;
use crate::network::proxy::Proxy;

/// The links from each member to each other one, by their two ends. A member listens on the address that it
/// announces, so there can be no common proxy in front of it: each member gets other addresses for the
/// others.
pub(super) struct MemberLinks(HashMap<(usize, usize), MemberLink>);

struct MemberLink {
    peer: Proxy,
    election: Proxy,
}

impl MemberLinks {
    pub(super) fn between(all: &[Ports]) -> Self {
        let everybody = 0..all.len();
        let pairs = everybody.clone().flat_map(|from| everybody.clone().map(move |to| (from, to)));
        let way = |to: usize| MemberLink {
            peer: Proxy::awaiting(Ports::address(all[to].peer)),
            election: Proxy::awaiting(Ports::address(all[to].election)),
        };
        let ways: HashMap<_, _> =
            pairs.filter(|(from, to)| from != to).map(|(from, to)| ((from, to), way(to))).collect();
        for ((from, to), way) in &ways {
            // A member that receives a vote connects to the address that the voter announces: that must be
            // this link, too.
            let [real, told] = [Ports::address(all[*from].election), ways[&(*to, *from)].election.address()];
            way.election.replace(&real.to_string(), &told.to_string());
        }
        Self(ways)
    }

    /// The addresses that a member uses for all members.
    pub(super) fn seen_from(&self, number: usize, all: &[Ports]) -> Vec<Ports> {
        let seen = |(to, ports): (usize, &Ports)| match self.0.get(&(number, to)) {
            Some(way) => {
                let [peer, election] = [&way.peer, &way.election].map(|proxy| proxy.address().port());
                Ports { peer, election, ..*ports }
            }
            None => *ports,
        };
        all.iter().enumerate().map(seen).collect()
    }

    /// Holds back the traffic of a link, or lets it pass.
    pub(super) fn hold(&self, from: usize, to: usize, is_held: bool) {
        let way = &self.0[&(from, to)];
        [&way.peer, &way.election].into_iter().for_each(|proxy| proxy.black_hole(is_held));
    }
}
