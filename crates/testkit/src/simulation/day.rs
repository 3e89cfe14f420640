//! One simulated day.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use latchwork::clock::Simulation;
use latchwork::engine::{Engine, Filter, LockState, Mode};
use latchwork::engines::Memory;
use latchwork::{Client, Guarantees, Loss, Promise};

use super::actor::Actor;
use super::nemesis::Nemesis;
use super::{EVENTS, MORNING, POOL, SHELF, name};
use crate::history::checks::{Excuses, Expectations, JOIN_FOR, check_all, fifo, writers};
use crate::history::{Fault, History, Hold, RecordedClient, Recorder, Violation, What};
use crate::network::simulated::{Network, RemoteEngine};
use crate::seed::Seed;

const CLIENTS: u32 = 3;
const TASKS_PER_CLIENT: u32 = 3;
/// The limit after the last fault within which every attempt must have been answered: each holder may hold
/// for two leases, and a claim that was delivered twice may hold for one more, without an owner.
const ALL_ANSWERED_WITHIN: Duration = Duration::from_secs(400);
/// The time until nothing is left of requests that were delivered twice.
const UNTIL_REST: Duration = Duration::from_secs(120);

/// How long after its call an attempt is certainly in the queue in the morning: a release has to be answered,
/// and a request has to arrive.
const QUEUED_AFTER: Duration = Duration::from_millis(10);

/// The outcome of a day.
#[derive(Debug)]
pub struct Day {
    /// All decisions and events, in order.
    pub trace: Vec<String>,
    /// The number of recorded events.
    pub events: usize,
    /// The losses that holders were told of or found.
    pub losses: usize,
    /// The writes of certain holders to stores that check tokens.
    pub writes: usize,
    /// The reads of certain readers from stores that know the latest write.
    pub reads: usize,
    /// The concurrent holds of a shared lock: of readers, and of permits.
    pub beside: [usize; 2],
    /// The numbers of attempts that were judged as waiters: those known to be in the queue, and readers that
    /// arrived while a writer waited.
    pub queued: [usize; 2],
    /// The number of attempts that were dropped.
    pub cancels: usize,
    /// The number of guards that another process took over from.
    pub take_overs: usize,
}

/// A broken guarantee, and how to reproduce it.
#[derive(Debug)]
pub struct Failure {
    seed: u64,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what } = self;
        write!(f, "{what}\nrepeat: LATCH_SEED={seed} cargo test -p testkit --test simulation -- --nocapture")
    }
}

/// The purpose of a hold.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) name: &'static str,
    pub(super) mode: Mode,
    /// The result of [`World::calm`] before the attempt.
    pub(super) calm_before: Option<u32>,
}

/// The state that all tasks of the simulation share.
#[derive(Clone)]
pub(super) struct World {
    /// The clock and the randomness of all clients.
    pub(super) machine: &'static Simulation,
    /// The clock on which leases are judged.
    pub(super) server: &'static Simulation,
    pub(super) memory: Memory,
    /// The network of each client.
    pub(super) networks: Vec<Network>,
    pub(super) recorder: Recorder,
    notes: Arc<Mutex<Notes>>,
}

/// Observations that are not in the record of holds.
#[derive(Default)]
struct Notes {
    /// The number of faults under which two holders may be certain at once, and whether one is active.
    faults: u32,
    fault_is_on: bool,
    /// The number of writes by certain holders.
    writes: usize,
    /// The number of reads by certain readers.
    reads: usize,
    /// The greatest token that each store has seen.
    stores: HashMap<&'static str, u64>,
    /// The client that each token of the owned lock belongs to.
    owners: HashMap<u64, u32>,
    lines: Vec<String>,
    losses: usize,
    cancels: usize,
    take_overs: usize,
    broken: Option<String>,
}

impl World {
    fn begin(seed: u64) -> Self {
        let (machine, server) = (Simulation::begin(seed), Simulation::begin(!seed));
        let (memory, recorder) = (Memory::on(server.clock()), Recorder::in_memory(machine.clock()));
        let mut chance = Seed::new(seed);
        let networks = (0..CLIENTS).map(|_| Network::new(chance.number(), machine.clock())).collect();
        Self { machine, server, memory, networks, recorder, notes: Arc::default() }
    }

    fn client(&self, network: &Network) -> RecordedClient {
        let remote = RemoteEngine::new(self.memory.clone(), network).on(self.machine.clock());
        self.recorder.client(Client::new(remote))
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no thread panicked while recording")
    }

    pub(super) fn is_over(&self) -> bool {
        self.recorder.count() >= EVENTS
    }

    pub(super) fn is_morning(&self) -> bool {
        self.recorder.count() < MORNING
    }

    pub(super) fn tell(&self, line: String) {
        self.notes().lines.push(line);
    }

    /// A fault begins or ends under which two holders may be certain at once.
    pub(super) fn fault(&self, fault: Fault, begins: bool) {
        let mut notes = self.notes();
        if begins {
            (notes.faults, notes.fault_is_on) = (notes.faults + 1, true);
            self.recorder.fault_began(fault);
        } else {
            notes.fault_is_on = false;
            self.recorder.fault_ended(fault);
        }
    }

    /// The number of such faults so far; `None` while one is active.
    pub(super) fn calm(&self) -> Option<u32> {
        let notes = self.notes();
        (!notes.fault_is_on).then_some(notes.faults)
    }

    /// A certain holder uses a store that checks tokens. If no fault came between, the store accepts its
    /// writes, and contains no later write than the one that it reads.
    pub(super) fn use_store(&self, what: Use, token: u64) {
        let is_calm = what.calm_before.is_some() && self.calm() == what.calm_before;
        let mut notes = self.notes();
        let seen = notes.stores.entry(what.name).or_default();
        let refused = (token < *seen).then_some(*seen);
        match what.mode {
            Mode::Permit { .. } => return,
            Mode::Read => notes.reads += 1,
            _ => {
                *seen = token.max(*seen);
                notes.writes += 1;
            }
        }
        if let Some(seen) = refused.filter(|_| is_calm) {
            let (name, mode) = (what.name, what.mode);
            notes.broken = Some(format!(
                "a certain holder of {name} ({mode:?}) had {token}, and {seen} was there before"
            ));
        }
    }

    /// A guard on the owned lock: its token may be shared only within its client.
    pub(super) fn owned(&self, token: u64, client: u32) {
        let mut notes = self.notes();
        let owner = *notes.owners.entry(token).or_insert(client);
        if owner != client {
            notes.broken = Some(format!("clients {owner} and {client} hold by the same token {token}"));
        }
    }

    pub(super) fn lost(&self, why: Loss) {
        let mut notes = self.notes();
        notes.losses += 1;
        notes.take_overs += usize::from(why == Loss::TakenOver);
    }

    pub(super) fn cancelled(&self) {
        self.notes().cancels += 1;
    }
}

impl Day {
    pub(super) async fn live(seed: u64) -> Result<Self, Failure> {
        let failure = |what: String| Failure { seed, what };
        let world = World::begin(seed);
        let mut chance = Seed::new(seed);
        let clients: Vec<_> = world.networks.iter().map(|network| world.client(network)).collect();
        let mut tasks = Vec::new();
        for number in 0..CLIENTS * TASKS_PER_CLIENT {
            let client = clients[(number % CLIENTS) as usize].clone();
            let actor = Actor::new(world.clone(), client, number % CLIENTS, Seed::new(chance.number()));
            tasks.push(tokio::spawn(actor.act()));
        }
        Nemesis::new(world.clone(), Seed::new(chance.number())).rage().await;
        for task in tasks {
            let done = tokio::time::timeout(ALL_ANSWERED_WITHIN, task).await;
            done.map_err(|_| failure(format!("somebody waits for ever\n{}", tail(&world))))?
                .map_err(|panic| failure(format!("{panic}\n{}", tail(&world))))?;
        }
        for client in &clients {
            client.client().close().await.map_err(|error| failure(error.to_string()))?;
        }
        tokio::time::sleep(UNTIL_REST).await;
        world.recorder.quiesced();
        let left =
            world.memory.inspect(&Filter::Prefix(String::new())).await.expect("the memory engine answers");
        world.judge(left).map_err(failure)
    }
}

/// The end of the record, which shows what led to a failure outside the checks.
fn tail(world: &World) -> String {
    let history = world.recorder.history();
    let from = history.events().len().saturating_sub(60);
    history.events()[from..].iter().map(|event| format!("{event}\n")).collect()
}

impl World {
    fn judge(&self, left: Vec<LockState>) -> Result<Day, String> {
        let (history, mut notes) = (self.recorder.history(), self.notes());
        if let Some(broken) = notes.broken.take() {
            return Err(broken);
        }
        let expected = Expectations {
            answer_within: ALL_ANSWERED_WITHIN,
            idle_at_most: UNTIL_REST,
            queued_after: None,
            left: Some(left),
        };
        let violated = |violation: Violation| violation.to_string();
        check_all(&history, &promised(&self.memory), &expected).map_err(violated)?;
        let (known, later) = (Some(QUEUED_AFTER), Excuses::from_the_first_fault_on(&history));
        let queued = [fifo(&history, known, &later), writers(&history, known, JOIN_FOR, &later)];
        let [in_order, behind_writers] =
            queued.map(|stats| stats.map(|stats| stats.judged).map_err(violated));
        Ok(Day::sum_up(&history, [in_order?, behind_writers?], &self.networks, &mut notes))
    }
}

/// The guarantees of the core on a server that keeps its tokens, judges leases by its own clock, and whose
/// clock may be set.
fn promised(memory: &Memory) -> Guarantees {
    let mut promised = memory.guarantees();
    promised.tokens_survive_data_loss = true;
    promised.faults.holder_pause = Promise::Exclusive;
    promised.faults.clock_step = Promise::FencedOnly;
    promised
}

impl Day {
    fn sum_up(history: &History, queued: [usize; 2], networks: &[Network], notes: &mut Notes) -> Self {
        let count =
            |wanted: fn(&What) -> bool| history.events().iter().filter(|event| wanted(&event.what)).count();
        let losses = count(|what| matches!(what, What::Told { .. } | What::FoundLost(_)));
        let cancels = count(|what| matches!(what, What::Cancelled { .. }));
        let mut trace: Vec<_> = networks.iter().flat_map(Network::trace).collect();
        trace.extend(history.events().iter().map(ToString::to_string));
        trace.append(&mut notes.lines);
        Self {
            trace,
            events: history.events().len(),
            losses: losses + notes.losses,
            writes: notes.writes,
            reads: notes.reads,
            beside: [SHELF.0, POOL.0].map(|lock| beside(history, lock)),
            queued,
            cancels: cancels + notes.cancels,
            take_overs: notes.take_overs,
        }
    }
}

/// The number of holds of this lock that began while another was certain.
fn beside(history: &History, lock: &str) -> usize {
    let mut until = None;
    let began_beside = |hold: &&Hold| {
        let is_beside = until.is_some_and(|end| hold.start < end);
        until = until.max(Some(hold.end));
        is_beside
    };
    history.holds_of(&name(lock)).filter(began_beside).count()
}
