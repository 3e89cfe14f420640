//! The world: masters, clients, and what is under way between them.

use std::array;

use stateright::{Model, Property};

use super::master::{Answer, Attempt, Master, Request};
use super::state::{ALL, CLIENTS, Client, Lane, MASTERS, Masters, Phase, Seen, Sent, State, parts};
use super::tally::{ClaimVote, Decision, Tally};
use super::votes::{VoteResult, Votes};

/// What may go wrong, once, at any moment, on any master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing but late and lost messages.
    Nothing,
    /// A master starts again and has forgotten everything. `quarantine`: it has no vote until every lease it gave is over.
    Restart {
        /// The engine's option.
        quarantine: bool,
    },
    /// The clock of a master jumps: its key expires at once, and from then on it finds every proposal too far ahead.
    ClockJump,
}

/// What clients propose as tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposals {
    /// A clock that all share.
    Clock,
    /// Anything: clocks that are ahead or behind.
    Any,
}

/// A mistake that the check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Any answer to a raise counts as a yes, not only exactly the token that was asked for.
    NotExactly,
    /// Masters that differ are not raised to the greatest token.
    NoWriteBack,
    /// A renewal counts the masters that it is about to heal.
    HealedAtOnce,
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct World {
    /// What may go wrong.
    pub fault: Fault,
    /// What clients propose.
    pub proposals: Proposals,
    /// How long a lease lasts.
    pub ttl: u8,
    /// When it ends.
    pub horizon: u8,
    /// How often each client tries.
    pub tries: u8,
    /// How often a holder renews.
    pub renewals: u8,
    /// The greatest difference between the masters' counters at the beginning.
    pub counters_apart: u8,
    /// Which mistake is made.
    pub mutant: Option<Mutant>,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Time goes on.
    Tick,
    /// A client claims, and proposes this token.
    Claim(usize, u8),
    /// A master carries out a request of a client.
    Arrive {
        /// Which master.
        lane: usize,
        /// Whose request.
        client: usize,
        /// Which of them.
        request: usize,
    },
    /// A client decides on its claim with what it heard from these masters.
    Decide(usize, Masters),
    /// A client gives its claim up.
    GiveUp(usize),
    /// A holder renews.
    Renew(usize),
    /// A holder decides on its renewal with what it heard from these masters.
    Judge(usize, Masters),
    /// A holder gives back.
    Release(usize),
    /// A master fails in the way of [`World::fault`].
    Fail(usize),
}

impl World {
    fn start(&self, state: &mut State, client: usize, proposal: u8) {
        state.begun += 1;
        let floor = state.seen.newest();
        state.clients[client].phase = Phase::Claiming { since: state.now, floor };
        state.ask(client, Request::Claim(proposal), ALL);
    }

    fn arrive(&self, state: &mut State, lane: usize, client: usize, request: usize) {
        let expires = state.now + self.ttl;
        let is_asleep = state.now < state.lanes[lane].asleep;
        let Lane { master, ways, .. } = &mut state.lanes[lane];
        let Sent { request, attempt, is_awaited } = ways[client].sent.remove(request);
        if is_asleep && matches!(request, Request::Claim(_)) {
            return;
        }
        let attempt = Attempt { client: client as u8, number: attempt };
        let answer = master.carry_out(attempt, request, expires);
        // To a claim, that the key is another's is the same as no answer.
        let is_told = answer != Answer::NotOurs || !matches!(request, Request::Claim(_));
        if is_awaited && is_told {
            ways[client].answer = Some(answer);
        }
    }

    /// What follows from what a claiming client heard: the engine's own rule.
    fn decision(&self, state: &State, client: usize, heard: Masters) -> Decision {
        let raised_to = match state.clients[client].phase {
            Phase::Raising { to, .. } => Some(to),
            Phase::Idle | Phase::Claiming { .. } | Phase::Held { .. } => None,
        };
        let mut tally = Tally::of(MASTERS);
        for (at, answer) in state.answers(client, heard) {
            tally.note(at, self.said(answer, raised_to));
        }
        match tally.decide() {
            Decision::Open => {
                tally.close();
                tally.decide()
            }
            decision => decision,
        }
    }

    fn decide(&self, state: &mut State, client: usize, heard: Masters) {
        let (Phase::Claiming { since, floor } | Phase::Raising { since, floor, .. }) =
            state.clients[client].phase
        else {
            return;
        };
        match self.decision(state, client, heard) {
            Decision::Granted(token) => self.grant(state, client, token as u8, since, floor),
            Decision::Raise(token) if self.mutant == Some(Mutant::NoWriteBack) => {
                self.grant(state, client, token as u8, since, floor);
            }
            Decision::Raise(token) => {
                let ours = |at: usize| state.lanes[at].ways[client].answer.is_some_and(Answer::is_ours);
                let ours: Masters =
                    (0..MASTERS).filter(|at| heard & 1 << at != 0 && ours(*at)).map(|at| 1 << at).sum();
                state.clients[client].phase = Phase::Raising { since, floor, to: token as u8 };
                state.ask(client, Request::Raise(token as u8), ours);
            }
            Decision::Open | Decision::Failed => state.give_up(client),
        }
    }

    fn said(&self, answer: Answer, raised_to: Option<u8>) -> ClaimVote {
        match (answer, raised_to) {
            (_, Some(to)) if self.mutant == Some(Mutant::NotExactly) => ClaimVote::Ours(u64::from(to)),
            (Answer::Ours(token), _) => ClaimVote::Ours(u64::from(token)),
            (Answer::Done | Answer::NotOurs, _) => ClaimVote::Silent,
        }
    }

    fn grant(&self, state: &mut State, client: usize, token: u8, since: u8, floor: u8) {
        let until = since + self.ttl;
        if state.now >= until {
            return state.give_up(client);
        }
        state.seen.note(token, floor);
        state.clients[client].phase = Phase::Held { until, token, renewals: 0, renewing: None };
        state.turn_away(client);
    }

    fn judge(&self, state: &mut State, client: usize, heard: Masters) {
        let Phase::Held { until, token, renewals, renewing: Some(since) } = state.clients[client].phase
        else {
            return;
        };
        let lacking = self.votes(state, client, heard).lacking;
        let until = until.max(since + self.ttl);
        state.clients[client].phase = Phase::Held { until, token, renewals, renewing: None };
        state.ask(client, Request::Heal(token), lacking.into_iter().map(|at| 1 << at).sum());
    }

    /// What a renewing client heard.
    fn votes(&self, state: &State, client: usize, heard: Masters) -> Votes {
        let mut votes = Votes::default();
        for (at, answer) in state.answers(client, heard) {
            match answer {
                Answer::NotOurs => votes.lacking.push(at),
                Answer::Done | Answer::Ours(_) => votes.kept += 1,
            }
        }
        if self.mutant == Some(Mutant::HealedAtOnce) {
            votes.kept += votes.lacking.len();
        }
        votes
    }

    fn fail(&self, state: &mut State, at: usize) {
        state.may_fail = false;
        let lane = &mut state.lanes[at];
        match self.fault {
            Fault::Nothing => {}
            Fault::Restart { quarantine } => {
                lane.master = Master::default();
                lane.asleep = if quarantine { state.now + self.ttl } else { 0 };
                // Its connections end with it.
                lane.ways.iter_mut().for_each(|way| (way.sent, way.answer) = (Vec::new(), None));
            }
            Fault::ClockJump => (lane.master.key, lane.master.is_behind) = (None, true),
        }
    }

    fn proposals(&self, state: &State) -> Vec<u8> {
        match self.proposals {
            Proposals::Clock => vec![8 * (state.begun + 1)],
            Proposals::Any => vec![0, self.counters_apart + 2],
        }
    }

    fn is_exclusive(&self) -> bool {
        matches!(self.fault, Fault::Nothing | Fault::Restart { quarantine: true })
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    /// The counters of the masters may differ, because claims failed before.
    fn init_states(&self) -> Vec<State> {
        let mut all = Vec::new();
        for counters in 0..(self.counters_apart + 1).pow(MASTERS as u32) {
            let mut rest = counters;
            let lanes = array::from_fn(|_| {
                let fence = rest % (self.counters_apart + 1);
                rest /= self.counters_apart + 1;
                Lane { master: Master { fence, ..Master::default() }, ..Lane::default() }
            });
            let clients = [Client::default(); CLIENTS];
            let may_fail = self.fault != Fault::Nothing;
            all.push(State { now: 0, begun: 0, lanes, clients, may_fail, seen: Seen::default() }.settled());
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        if state.now < self.horizon {
            acts.push(Act::Tick);
        }
        for (client, Client { attempt, phase, .. }) in state.clients.iter().enumerate() {
            match phase {
                Phase::Idle if *attempt < self.tries => {
                    acts.extend(self.proposals(state).into_iter().map(|token| Act::Claim(client, token)));
                }
                Phase::Idle => {}
                Phase::Claiming { .. } | Phase::Raising { .. } => {
                    acts.push(Act::GiveUp(client));
                    let can_go_on =
                        |heard: &Masters| self.decision(state, client, *heard) != Decision::Failed;
                    let heard = parts(state.answered(client)).filter(can_go_on);
                    acts.extend(heard.map(|heard| Act::Decide(client, heard)));
                }
                Phase::Held { until, renewals, renewing, .. } => {
                    acts.push(Act::Release(client));
                    if renewing.is_some() && state.now < *until {
                        let is_kept = |heard: &Masters| {
                            self.votes(state, client, *heard).judge(MASTERS) == VoteResult::Kept
                        };
                        let heard = parts(state.answered(client)).filter(is_kept);
                        acts.extend(heard.map(|heard| Act::Judge(client, heard)));
                    }
                    if *renewals < self.renewals && state.now < *until {
                        acts.push(Act::Renew(client));
                    }
                }
            }
        }
        for (lane, Lane { ways, .. }) in state.lanes.iter().enumerate() {
            for (client, way) in ways.iter().enumerate() {
                acts.extend((0..way.sent.len()).map(|request| Act::Arrive { lane, client, request }));
            }
        }
        if state.may_fail {
            // One that was never told anything has nothing to forget.
            let can_forget = |lane: &usize| state.lanes[*lane].master.fence > 0;
            acts.extend((0..MASTERS).filter(can_forget).map(Act::Fail));
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        match act {
            Act::Tick => {
                next.now += 1;
                let now = next.now;
                next.lanes.iter_mut().for_each(|lane| lane.master.reach(now));
            }
            Act::Claim(client, proposal) => self.start(&mut next, client, proposal),
            Act::Arrive { lane, client, request } => self.arrive(&mut next, lane, client, request),
            Act::Decide(client, heard) => self.decide(&mut next, client, heard),
            Act::Renew(client) => {
                if let Phase::Held { renewals, renewing, .. } = &mut next.clients[client].phase {
                    (*renewals, *renewing) = (*renewals + 1, Some(state.now));
                }
                next.ask(client, Request::Renew, ALL);
            }
            Act::Judge(client, heard) => self.judge(&mut next, client, heard),
            Act::GiveUp(client) | Act::Release(client) => next.give_up(client),
            Act::Fail(lane) => self.fail(&mut next, lane),
        }
        Some(next.settled())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always("no token twice", |_, state: &State| !state.seen.is_doubled),
            Property::always("who began after a grant has a greater token", |_, state: &State| {
                !state.seen.is_behind
            }),
            Property::sometimes("two grants", |_, state: &State| state.seen.granted.count_ones() == 2),
        ];
        if self.renewals > 0 {
            all.push(Property::sometimes("a renewal", |_, state: &State| {
                let is_renewed = |client: &Client| {
                    matches!(client.phase, Phase::Held { renewals: 1.., renewing: None, .. })
                };
                state.clients.iter().any(is_renewed)
            }));
        }
        if self.counters_apart > 0 && self.mutant.is_none() {
            all.push(Property::sometimes("a raise", |_, state: &State| {
                state.clients.iter().any(|client| matches!(client.phase, Phase::Raising { .. }))
            }));
        }
        if self.is_exclusive() {
            all.push(Property::always("one holder", |_, state: &State| state.holders() <= 1));
            all.push(Property::always("tokens rise in the order of grants", |_, state: &State| {
                !state.seen.is_overtaken
            }));
        } else {
            // What the fault does to exclusion, and why tokens are needed.
            all.push(Property::sometimes("two holders", |_, state: &State| state.holders() == 2));
        }
        all
    }
}
