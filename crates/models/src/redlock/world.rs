//! The world: masters, clients, and the messages between them.

use std::array;

use stateright::{Model, Property};

use super::master::{Answer, Attempt, Master, Request};
use super::state::{
    ALL, CLIENTS, Client, GrantHistory, MASTERS, MasterSet, MasterState, Phase, Sent, State, subsets,
};
use super::tally::{ClaimVote, Decision, Tally};
use super::votes::{VoteResult, Votes};

/// The fault of a world. It happens at most once, at any moment, on any master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only late and lost messages.
    Nothing,
    /// A master restarts without its data. With `quarantine` it has no vote until every lease that it granted
    /// has ended.
    Restart {
        /// The engine's option.
        quarantine: bool,
    },
    /// The clock of a master jumps: its key expires at once, and from then on it rejects every proposal as
    /// too far ahead.
    ClockJump,
}

/// The tokens that clients propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposals {
    /// From a clock that all clients share.
    Clock,
    /// Any token: clocks that are ahead or behind.
    Any,
}

/// A mistake that the check must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Any reply to a raise counts as an acknowledgement, not only the requested token.
    NotExactly,
    /// Masters with different tokens are not raised to the greatest one.
    NoWriteBack,
    /// A renewal counts the masters that it is about to heal.
    HealedAtOnce,
}

/// A world whose states are all checked.
#[derive(Clone, Debug)]
pub struct World {
    /// The fault.
    pub fault: Fault,
    /// The proposals of the clients.
    pub proposals: Proposals,
    /// The length of a lease.
    pub ttl: u8,
    /// When time ends.
    pub horizon: u8,
    /// The number of attempts of each client.
    pub tries: u8,
    /// The number of renewals of a holder.
    pub renewals: u8,
    /// The greatest difference between the counters of the masters at the beginning.
    pub counters_apart: u8,
    /// The mistake, if one is made.
    pub mutant: Option<Mutant>,
}

/// A step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time advances by one.
    Tick,
    /// A client claims, and proposes this token.
    Claim(usize, u8),
    /// A master executes a request of a client.
    Arrive {
        /// The index of the master.
        master: usize,
        /// The index of the client.
        client: usize,
        /// The index of the request.
        request: usize,
    },
    /// A client decides on its claim with the replies of these masters.
    DecideClaim(usize, MasterSet),
    /// A client abandons its claim.
    Abandon(usize),
    /// A holder renews.
    Renew(usize),
    /// A holder decides on its renewal with the replies of these masters.
    DecideRenewal(usize, MasterSet),
    /// A holder releases.
    Release(usize),
    /// A master has the fault [`World::fault`].
    Fail(usize),
}

impl World {
    fn start(&self, state: &mut State, client: usize, proposal: u8) {
        state.claims_begun += 1;
        let floor = state.history.newest();
        state.clients[client].phase = Phase::Claiming { since: state.now, floor };
        state.send(client, Request::Claim(proposal), ALL);
    }

    fn arrive(&self, state: &mut State, index: usize, client: usize, request: usize) {
        let expires = state.now + self.ttl;
        let is_quarantined = state.now < state.masters[index].quarantined_until;
        let MasterState { master, channels, .. } = &mut state.masters[index];
        let Sent { request, attempt, is_awaited } = channels[client].sent.remove(request);
        if is_quarantined && matches!(request, Request::Claim(_)) {
            return;
        }
        let attempt = Attempt { client: client as u8, number: attempt };
        let answer = master.carry_out(attempt, request, expires);
        // For a claim, the reply that the key is another's is equivalent to no reply.
        let is_told = answer != Answer::NotOurs || !matches!(request, Request::Claim(_));
        if is_awaited && is_told {
            channels[client].answer = Some(answer);
        }
    }

    /// The decision on a claim from the received replies, by the engine's own rule.
    fn decision(&self, state: &State, client: usize, received: MasterSet) -> Decision {
        let raised_to = match state.clients[client].phase {
            Phase::Raising { to, .. } => Some(to),
            Phase::Idle | Phase::Claiming { .. } | Phase::Held { .. } => None,
        };
        let mut tally = Tally::of(MASTERS);
        for (at, answer) in state.answers(client, received) {
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

    fn decide_claim(&self, state: &mut State, client: usize, received: MasterSet) {
        let (Phase::Claiming { since, floor } | Phase::Raising { since, floor, .. }) =
            state.clients[client].phase
        else {
            return;
        };
        match self.decision(state, client, received) {
            Decision::Granted(token) => self.grant(state, client, token as u8, since, floor),
            Decision::Raise(token) if self.mutant == Some(Mutant::NoWriteBack) => {
                self.grant(state, client, token as u8, since, floor);
            }
            Decision::Raise(token) => {
                let ours = |at: usize| state.masters[at].channels[client].answer.is_some_and(Answer::is_ours);
                let ours: MasterSet =
                    (0..MASTERS).filter(|at| received & 1 << at != 0 && ours(*at)).map(|at| 1 << at).sum();
                state.clients[client].phase = Phase::Raising { since, floor, to: token as u8 };
                state.send(client, Request::Raise(token as u8), ours);
            }
            Decision::Open | Decision::Failed => state.abandon(client),
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
            return state.abandon(client);
        }
        state.history.note(token, floor);
        state.clients[client].phase = Phase::Held { until, token, renewals: 0, renewing: None };
        state.end_round(client);
    }

    fn decide_renewal(&self, state: &mut State, client: usize, received: MasterSet) {
        let Phase::Held { until, token, renewals, renewing: Some(since) } = state.clients[client].phase
        else {
            return;
        };
        let lacking = self.votes(state, client, received).lacking;
        let until = until.max(since + self.ttl);
        state.clients[client].phase = Phase::Held { until, token, renewals, renewing: None };
        state.send(client, Request::Heal(token), lacking.into_iter().map(|at| 1 << at).sum());
    }

    /// The votes on a renewal from the received replies.
    fn votes(&self, state: &State, client: usize, received: MasterSet) -> Votes {
        let mut votes = Votes::default();
        for (at, answer) in state.answers(client, received) {
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
        let master_state = &mut state.masters[at];
        match self.fault {
            Fault::Nothing => {}
            Fault::Restart { quarantine } => {
                master_state.master = Master::default();
                master_state.quarantined_until = if quarantine { state.now + self.ttl } else { 0 };
                // Its connections end with it.
                master_state
                    .channels
                    .iter_mut()
                    .for_each(|channel| (channel.sent, channel.answer) = (Vec::new(), None));
            }
            Fault::ClockJump => (master_state.master.key, master_state.master.is_behind) = (None, true),
        }
    }

    fn proposals(&self, state: &State) -> Vec<u8> {
        match self.proposals {
            Proposals::Clock => vec![8 * (state.claims_begun + 1)],
            Proposals::Any => vec![0, self.counters_apart + 2],
        }
    }

    fn is_exclusive(&self) -> bool {
        matches!(self.fault, Fault::Nothing | Fault::Restart { quarantine: true })
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    /// The counters of the masters may differ, because claims failed before.
    fn init_states(&self) -> Vec<State> {
        let mut all = Vec::new();
        for counters in 0..(self.counters_apart + 1).pow(MASTERS as u32) {
            let mut rest = counters;
            let masters = array::from_fn(|_| {
                let fence = rest % (self.counters_apart + 1);
                rest /= self.counters_apart + 1;
                MasterState { master: Master { fence, ..Master::default() }, ..MasterState::default() }
            });
            let clients = [Client::default(); CLIENTS];
            let may_fail = self.fault != Fault::Nothing;
            all.push(
                State {
                    now: 0,
                    claims_begun: 0,
                    masters,
                    clients,
                    may_fail,
                    history: GrantHistory::default(),
                }
                .canonical(),
            );
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.horizon {
            actions.push(Action::Tick);
        }
        for (client, Client { attempt, phase, .. }) in state.clients.iter().enumerate() {
            match phase {
                Phase::Idle if *attempt < self.tries => {
                    actions
                        .extend(self.proposals(state).into_iter().map(|token| Action::Claim(client, token)));
                }
                Phase::Idle => {}
                Phase::Claiming { .. } | Phase::Raising { .. } => {
                    actions.push(Action::Abandon(client));
                    let can_go_on =
                        |received: &MasterSet| self.decision(state, client, *received) != Decision::Failed;
                    let received = subsets(state.answered(client)).filter(can_go_on);
                    actions.extend(received.map(|received| Action::DecideClaim(client, received)));
                }
                Phase::Held { until, renewals, renewing, .. } => {
                    actions.push(Action::Release(client));
                    if renewing.is_some() && state.now < *until {
                        let is_kept = |received: &MasterSet| {
                            self.votes(state, client, *received).judge(MASTERS) == VoteResult::Kept
                        };
                        let received = subsets(state.answered(client)).filter(is_kept);
                        actions.extend(received.map(|received| Action::DecideRenewal(client, received)));
                    }
                    if *renewals < self.renewals && state.now < *until {
                        actions.push(Action::Renew(client));
                    }
                }
            }
        }
        for (master, MasterState { channels, .. }) in state.masters.iter().enumerate() {
            for (client, channel) in channels.iter().enumerate() {
                actions.extend((0..channel.sent.len()).map(|request| Action::Arrive {
                    master,
                    client,
                    request,
                }));
            }
        }
        if state.may_fail {
            // A master without any data has nothing to lose.
            let can_forget = |index: &usize| state.masters[*index].master.fence > 0;
            actions.extend((0..MASTERS).filter(can_forget).map(Action::Fail));
        }
    }

    fn next_state(&self, state: &State, act: Action) -> Option<State> {
        let mut next = state.clone();
        match act {
            Action::Tick => {
                next.now += 1;
                let now = next.now;
                next.masters.iter_mut().for_each(|master_state| master_state.master.reach(now));
            }
            Action::Claim(client, proposal) => self.start(&mut next, client, proposal),
            Action::Arrive { master, client, request } => self.arrive(&mut next, master, client, request),
            Action::DecideClaim(client, received) => self.decide_claim(&mut next, client, received),
            Action::Renew(client) => {
                if let Phase::Held { renewals, renewing, .. } = &mut next.clients[client].phase {
                    (*renewals, *renewing) = (*renewals + 1, Some(state.now));
                }
                next.send(client, Request::Renew, ALL);
            }
            Action::DecideRenewal(client, received) => self.decide_renewal(&mut next, client, received),
            Action::Abandon(client) | Action::Release(client) => next.abandon(client),
            Action::Fail(master) => self.fail(&mut next, master),
        }
        Some(next.canonical())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always("no token twice", |_, state: &State| !state.history.is_doubled),
            Property::always("a claim that began after a grant has a greater token", |_, state: &State| {
                !state.history.is_behind
            }),
            Property::sometimes("two grants", |_, state: &State| state.history.granted.count_ones() == 2),
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
                !state.history.is_overtaken
            }));
        } else {
            // The effect of the fault on exclusion: this is why tokens are needed.
            all.push(Property::sometimes("two holders", |_, state: &State| state.holders() == 2));
        }
        all
    }
}
