//! Everything at one moment: masters, clients, and what is under way between them.

use super::master::{Answer, Attempt, Master, Request};

pub(super) const MASTERS: usize = 3;
pub(super) const CLIENTS: usize = 2;
pub(super) const ALL: Masters = (1 << MASTERS) - 1;

/// Some of the masters, a bit for each.
pub(super) type Masters = u8;

/// Everything at one moment. Masters are kept sorted: which of them is called the first makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub(super) now: u8,
    /// How many claims have begun: the clock of the proposals.
    pub(super) begun: u8,
    pub(super) lanes: [Lane; MASTERS],
    pub(super) clients: [Client; CLIENTS],
    pub(super) may_fail: bool,
    pub(super) seen: Seen,
}

/// One master, and what is under way to it and from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) master: Master,
    /// Until when it is in quarantine.
    pub(super) asleep: u8,
    pub(super) ways: [Way; CLIENTS],
}

/// Between one client and one master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Way {
    /// What may still arrive, in any order.
    pub(super) sent: Vec<Sent>,
    /// What the master answered in the round that the client is in. When the client decides, it has heard it or not.
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent {
    pub(super) request: Request,
    pub(super) attempt: u8,
    /// Of a round that is over nobody reads the answer.
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
    /// `floor`: the greatest token that was granted before this began.
    Claiming { since: u8, floor: u8 },
    /// The same, and masters are being raised to `to`.
    Raising { since: u8, floor: u8, to: u8 },
    /// Certain until `until`.
    Held { until: u8, token: u8, renewals: u8, renewing: Option<u8> },
}

/// What the properties need to know of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Seen {
    /// A bit for each token that was granted.
    pub(super) granted: u64,
    /// One was granted twice.
    pub(super) is_doubled: bool,
    /// A claim that began after a grant got no greater token.
    pub(super) is_behind: bool,
    /// A later grant had a lesser token.
    pub(super) is_overtaken: bool,
}

impl State {
    /// A new round: what was answered in the last one is over.
    pub(super) fn turn_away(&mut self, client: usize) {
        for lane in &mut self.lanes {
            lane.ways[client].answer = None;
            lane.ways[client].sent.iter_mut().for_each(|sent| sent.is_awaited = false);
        }
    }

    pub(super) fn ask(&mut self, client: usize, request: Request, whom: Masters) {
        self.turn_away(client);
        let attempt = self.clients[client].attempt;
        let is_awaited = !matches!(request, Request::Heal(_) | Request::Release);
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if whom & 1 << at != 0 {
                lane.ways[client].sent.push(Sent { request, attempt, is_awaited });
            }
        }
    }

    /// Lets go everywhere. The next attempt has another value.
    pub(super) fn give_up(&mut self, client: usize) {
        self.ask(client, Request::Release, ALL);
        self.clients[client].phase = Phase::Idle;
        self.clients[client].attempt += 1;
    }

    /// What these masters have answered.
    pub(super) fn answers(&self, client: usize, heard: Masters) -> impl Iterator<Item = (usize, Answer)> {
        let heard = (0..MASTERS).filter(move |at| heard & 1 << at != 0);
        heard.filter_map(move |at| Some((at, self.lanes[at].ways[client].answer?)))
    }

    /// Who has answered.
    pub(super) fn answered(&self, client: usize) -> Masters {
        self.answers(client, ALL).map(|(at, _)| 1 << at).sum()
    }

    pub(super) fn holders(&self) -> usize {
        let certain =
            |client: &&Client| matches!(client.phase, Phase::Held { until, .. } if self.now < until);
        self.clients.iter().filter(certain).count()
    }

    /// The same for all states that differ in nothing that matters: late requests that change nothing, and which master and
    /// which client is called the first.
    pub(super) fn settled(mut self) -> Self {
        for lane in &mut self.lanes {
            for (client, way) in lane.ways.iter_mut().enumerate() {
                way.forget_what_changes_nothing(lane.master, client as u8);
                way.sent.sort_unstable();
            }
        }
        if self.clients[0] > self.clients[1] {
            self.exchange_clients();
        }
        self.lanes.sort_unstable();
        self
    }

    pub(super) fn exchange_clients(&mut self) {
        self.clients.swap(0, 1);
        for lane in &mut self.lanes {
            lane.ways.swap(0, 1);
            if let Some((holder, _)) = &mut lane.master.key {
                holder.client = 1 - holder.client;
            }
        }
    }
}

impl Way {
    /// A request about a key that is not there, and that nothing under way can put there, changes nothing.
    pub(super) fn forget_what_changes_nothing(&mut self, master: Master, client: u8) {
        let sent = self.sent.clone();
        self.sent.retain(|late| {
            let attempt = Attempt { client, number: late.attempt };
            let can_come = sent.iter().any(|other| {
                other.attempt == late.attempt && matches!(other.request, Request::Claim(_) | Request::Heal(_))
            });
            can_come || late.is_awaited || master.key.is_some_and(|(holder, _)| holder == attempt)
        });
    }
}

impl Seen {
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

/// Every part of some masters.
pub(super) fn parts(whole: Masters) -> impl Iterator<Item = Masters> {
    (0..=whole).filter(move |part| part & !whole == 0)
}
