//! The state of the world: masters, clients, and the messages between them.

use super::master::{Answer, Attempt, Master, Request};

pub(super) const MASTERS: usize = 3;
pub(super) const CLIENTS: usize = 2;
pub(super) const ALL: MasterSet = (1 << MASTERS) - 1;

/// A set of masters, one bit for each.
pub(super) type MasterSet = u8;

/// The state of the world. Masters are kept sorted, because their order makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub(super) now: u8,
    /// The number of claims so far: the clock of the proposals.
    pub(super) claims_begun: u8,
    pub(super) masters: [MasterState; MASTERS],
    pub(super) clients: [Client; CLIENTS],
    pub(super) may_fail: bool,
    pub(super) history: GrantHistory,
}

/// One master, and the messages to and from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MasterState {
    pub(super) master: Master,
    /// The end of its quarantine.
    pub(super) quarantined_until: u8,
    pub(super) channels: [Channel; CLIENTS],
}

/// The messages between one client and one master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Channel {
    /// Requests that may still arrive, in any order.
    pub(super) sent: Vec<Sent>,
    /// The master's reply in the client's current round. When the client decides, it has received the reply
    /// or not.
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) request: Request,
    pub(super) attempt: u8,
    /// The reply of a round that has ended is not read.
    pub(super) is_awaited: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Client {
    pub(super) attempt: u8,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// `floor`: the greatest token that was granted before this claim began.
    Claiming { since: u8, floor: u8 },
    /// As [`Phase::Claiming`], and masters are being raised to `to`.
    Raising { since: u8, floor: u8, to: u8 },
    /// Certain until `until`.
    Held { until: u8, token: u8, renewals: u8, renewing: Option<u8> },
}

/// The history that the properties need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct GrantHistory {
    /// A bit for each granted token.
    pub(super) granted: u64,
    /// A token was granted twice.
    pub(super) is_doubled: bool,
    /// A claim that began after a grant did not get a greater token.
    pub(super) is_behind: bool,
    /// A later grant had a smaller token.
    pub(super) is_overtaken: bool,
}

impl State {
    /// Begins a new round: replies of the last one no longer count.
    pub(super) fn end_round(&mut self, client: usize) {
        for master_state in &mut self.masters {
            master_state.channels[client].answer = None;
            master_state.channels[client].sent.iter_mut().for_each(|sent| sent.is_awaited = false);
        }
    }

    pub(super) fn send(&mut self, client: usize, request: Request, whom: MasterSet) {
        self.end_round(client);
        let attempt = self.clients[client].attempt;
        let is_awaited = !matches!(request, Request::Heal(_) | Request::Release);
        for (at, master_state) in self.masters.iter_mut().enumerate() {
            if whom & 1 << at != 0 {
                master_state.channels[client].sent.push(Sent { request, attempt, is_awaited });
            }
        }
    }

    /// Releases the claim on every master. The next attempt has another value.
    pub(super) fn abandon(&mut self, client: usize) {
        self.send(client, Request::Release, ALL);
        self.clients[client].phase = Phase::Idle;
        self.clients[client].attempt += 1;
    }

    /// The replies of these masters.
    pub(super) fn answers(
        &self,
        client: usize,
        received: MasterSet,
    ) -> impl Iterator<Item = (usize, Answer)> {
        let received = (0..MASTERS).filter(move |at| received & 1 << at != 0);
        received.filter_map(move |at| Some((at, self.masters[at].channels[client].answer?)))
    }

    /// The masters that have replied.
    pub(super) fn answered(&self, client: usize) -> MasterSet {
        self.answers(client, ALL).map(|(at, _)| 1 << at).sum()
    }

    pub(super) fn holders(&self) -> usize {
        let certain =
            |client: &&Client| matches!(client.phase, Phase::Held { until, .. } if self.now < until);
        self.clients.iter().filter(certain).count()
    }

    /// The canonical state of all states that do not differ in effect: without late requests that change
    /// nothing, and with masters and clients in a fixed order.
    pub(super) fn canonical(mut self) -> Self {
        for master_state in &mut self.masters {
            for (client, channel) in master_state.channels.iter_mut().enumerate() {
                channel.drop_ineffective(master_state.master, client as u8);
                channel.sent.sort_unstable();
            }
        }
        if self.clients[0] > self.clients[1] {
            self.exchange_clients();
        }
        self.masters.sort_unstable();
        self
    }

    pub(super) fn exchange_clients(&mut self) {
        self.clients.swap(0, 1);
        for master_state in &mut self.masters {
            master_state.channels.swap(0, 1);
            if let Some((holder, _)) = &mut master_state.master.key {
                holder.client = 1 - holder.client;
            }
        }
    }
}

impl Channel {
    /// A request about a key that does not exist, and that no message on its way can create, changes nothing.
    pub(super) fn drop_ineffective(&mut self, master: Master, client: u8) {
        let sent = self.sent.clone();
        self.sent.retain(|late| {
            let attempt = Attempt { client, number: late.attempt };
            let may_appear = sent.iter().any(|other| {
                other.attempt == late.attempt && matches!(other.request, Request::Claim(_) | Request::Heal(_))
            });
            may_appear || late.is_awaited || master.key.is_some_and(|(holder, _)| holder == attempt)
        });
    }
}

impl GrantHistory {
    pub(super) fn newest(&self) -> u8 {
        (64 - self.granted.leading_zeros()) as u8
    }

    pub(super) fn note(&mut self, token: u8, floor: u8) {
        let bit = 1 << (token - 1);
        self.is_doubled |= self.granted & bit != 0;
        self.is_behind |= token <= floor;
        self.is_overtaken |= token < self.newest();
        self.granted |= bit;
    }
}

/// Every subset of a set of masters.
pub(super) fn subsets(whole: MasterSet) -> impl Iterator<Item = MasterSet> {
    (0..=whole).filter(move |part| part & !whole == 0)
}
