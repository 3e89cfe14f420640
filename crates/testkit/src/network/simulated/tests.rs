//! Each fault, one by one.

use latchwork::Client;
use latchwork::Loss;
use latchwork::engines::Memory;

use super::*;
use crate::drop_at_poll;
use crate::history::Recorder;
use crate::history::checks::{Excuses, exclusion, tokens, told};

const TTL: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_millis(100);
const REPLY: Duration = Duration::from_millis(30);

struct Setting {
    memory: Memory,
    network: Network,
    remote: RemoteEngine<Memory>,
    clock: Clock,
}

/// A network with latencies of exactly 100 ms for requests and 30 ms for replies, and with the faults that
/// `change` adds.
fn setting(change: impl FnOnce(&mut Conditions)) -> Setting {
    let memory = Memory::new();
    let network = Network::new(1, memory.clock());
    let mut conditions =
        Conditions { request: REQUEST..=REQUEST, reply: REPLY..=REPLY, ..Conditions::calm() };
    change(&mut conditions);
    network.set(conditions);
    let loses = memory.clone();
    let remote = RemoteEngine::new(memory.clone(), &network).forgetting(move |lock| loses.lose(lock));
    Setting { clock: memory.clock(), memory, network, remote }
}

fn claim(lock: &str) -> Claim {
    let mut claim = Claim::new(LockName::new(lock).unwrap(), TTL);
    claim.wait_lease = Duration::from_secs(3);
    claim
}

async fn holders(memory: &Memory, lock: &str) -> usize {
    let seen = memory.inspect(&Filter::Name(LockName::new(lock).unwrap())).await.unwrap();
    seen.iter().map(|lock| lock.holders.len()).sum()
}

fn span(valid: Valid) -> Duration {
    match valid {
        Valid::For(span) => span,
        Valid::Until(_) => panic!("a server with its own clock returns a span"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_its_time_both_ways_and_the_lease_counts_from_its_sending() {
    let Setting { remote, clock, memory, .. } = setting(|_| {});
    let (claim, sent) = (Arc::new(claim("a")), clock.now());
    let Verdict::Granted(grant) = remote.claim(&claim).await.unwrap() else { panic!("free") };
    assert_eq!(clock.now().since(sent), REQUEST + REPLY);
    assert_eq!(span(grant.valid), TTL, "the span that was left when the request took effect");
    let sent = clock.now();
    let renewals = remote.renew(&[claim.clone(), claim.clone()]).await;
    assert_eq!(clock.now().since(sent), REQUEST + REPLY, "one request for the batch");
    assert_eq!(renewals.len(), 2);
    let Ok(Renewal::Kept(valid)) = renewals[0] else { panic!("held") };
    assert_eq!(span(valid), TTL);
    assert_eq!(remote.release(&claim).await.unwrap(), Released::Freed);
    assert_eq!(holders(&memory, "a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pushed_grant_counts_from_the_newest_answered_claim() {
    let Setting { remote, clock, memory, network, .. } = setting(|_| {});
    let (holder, waiter) = (claim("a"), claim("a"));
    memory.claim(&holder).await.unwrap();
    remote.claim(&waiter).await.unwrap();
    tokio::time::sleep(TTL / 10).await;
    let sent = clock.now();
    let Verdict::Busy(busy) = remote.claim(&waiter).await.unwrap() else { panic!("held by another") };
    // A claim whose answer was lost does not count: the core never learned of it.
    network.set(Conditions { silent: 100, ..Conditions::calm() });
    assert!(tokio::time::timeout(Duration::from_secs(1), remote.claim(&waiter)).await.is_err());
    network.set(Conditions { reply: REPLY..=REPLY, ..Conditions::calm() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let granted = clock.now();
    memory.release(&holder).await.unwrap();
    let Wake::Granted(grant) = remote.wait(&waiter, &busy).await.unwrap() else { panic!("handed over") };
    assert_eq!(clock.now().since(granted), REPLY, "a push travels one way");
    assert!(sent.after(span(grant.valid)) < granted.after(TTL), "never longer than the server keeps it");
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_had_no_effect_and_reports_it() {
    let Setting { remote, memory, .. } =
        setting(|conditions| (conditions.refused, conditions.duplicated) = (100, 100));
    let error = remote.claim(&claim("a")).await.unwrap_err();
    assert_eq!(error.effect(), Effect::None);
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(holders(&memory, "a").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_broken_request_took_effect_and_reports_an_unknown_effect() {
    let Setting { remote, memory, network, .. } = setting(|conditions| conditions.broken = 100);
    let claim = Arc::new(claim("a"));
    assert_eq!(remote.claim(&claim).await.unwrap_err().effect(), Effect::Unknown);
    assert_eq!(holders(&memory, "a").await, 1);
    let renewals = remote.renew(&[claim.clone(), claim.clone()]).await;
    assert!(renewals.iter().all(|answer| answer.as_ref().is_err_and(|e| e.effect() == Effect::Unknown)));
    assert_eq!(renewals.len(), 2);
    network.set(Conditions::calm());
    assert_eq!(remote.release(&claim).await.unwrap(), Released::Freed);
}

#[tokio::test(start_paused = true)]
async fn a_silent_request_takes_effect_and_a_vanished_one_does_not() {
    for (silent, left) in [(100, 1), (0, 0)] {
        let Setting { remote, memory, .. } =
            setting(|conditions| (conditions.silent, conditions.vanished) = (silent, 100 - silent));
        let answer = tokio::time::timeout(TTL / 2, remote.claim(&claim("a"))).await;
        assert!(answer.is_err(), "no answer ever comes");
        assert_eq!(holders(&memory, "a").await, left);
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_arrives_even_after_a_later_release() {
    let late = Duration::from_secs(2);
    let Setting { remote, memory, network, .. } = setting(|conditions| {
        (conditions.duplicated, conditions.duplicate_after) = (100, late..=late);
    });
    let claim = claim("a");
    remote.claim(&claim).await.unwrap();
    network.set(Conditions::calm());
    remote.release(&claim).await.unwrap();
    assert_eq!(holders(&memory, "a").await, 0);
    tokio::time::sleep(late).await;
    assert_eq!(holders(&memory, "a").await, 1, "the released lock is claimed once more");
    tokio::time::sleep(TTL).await;
    assert_eq!(holders(&memory, "a").await, 0, "until its lease ends");
}

#[tokio::test(start_paused = true)]
async fn a_request_arrives_even_if_the_caller_is_dropped() {
    let Setting { remote, memory, .. } = setting(|_| {});
    assert!(drop_at_poll::after_polls(remote.claim(&claim("a")), 1).await.is_none());
    assert_eq!(holders(&memory, "a").await, 0, "the request is still in transit");
    tokio::time::sleep(REQUEST * 2).await;
    assert_eq!(holders(&memory, "a").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_server_forgets_is_reported_at_the_next_renewal() {
    let Setting { remote, network, .. } = setting(|_| {});
    let client = Client::new(remote);
    let guard = client.lock("a").ttl(TTL).acquire().await.unwrap();
    network.set(Conditions { forgets: 100, ..Conditions::calm() });
    let told = tokio::time::timeout(TTL * 2, guard.lost()).await;
    assert_eq!(told, Ok(Loss::Removed), "the first renewal was kept, the second found nothing");
}

#[tokio::test(start_paused = true)]
async fn a_lost_push_makes_the_waiter_claim_again() {
    let Setting { remote, memory, network, .. } = setting(|_| {});
    let (holder, waiter) = (claim("a"), claim("a"));
    memory.claim(&holder).await.unwrap();
    let Verdict::Busy(busy) = remote.claim(&waiter).await.unwrap() else { panic!("held by another") };
    network.set(Conditions { silent: 100, ..Conditions::calm() });
    memory.release(&holder).await.unwrap();
    assert!(tokio::time::timeout(TTL / 2, remote.wait(&waiter, &busy)).await.is_err());
    network.set(Conditions::calm());
    assert!(matches!(remote.claim(&waiter).await.unwrap(), Verdict::Granted(_)));
}

/// The trace of a few requests on a network with this seed.
async fn trace(seed: u64) -> Vec<String> {
    let memory = Memory::new();
    let network = Network::new(seed, memory.clock());
    network.set(Conditions::storm());
    let remote = RemoteEngine::new(memory, &network);
    for lock in ["a", "b", "c", "a", "b", "c"] {
        let claim = claim(lock);
        drop(tokio::time::timeout(TTL, remote.claim(&claim)).await);
        drop(tokio::time::timeout(TTL, remote.release(&claim)).await);
    }
    network.trace()
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_trace_and_another_one_does_not() {
    let first = trace(7).await;
    assert_eq!(first.len(), 12);
    assert_eq!(first, trace(7).await);
    assert_ne!(first, trace(8).await);
}

/// The core on top of the network, in a storm and after it: no two clients hold the lock at once, and every
/// holder is told of its loss in time.
#[tokio::test(start_paused = true)]
async fn clients_keep_their_promises_in_a_storm() {
    let mut judged = 0;
    for seed in 0..20 {
        let memory = Memory::new();
        let network = Network::new(seed, memory.clock());
        let recorder = Recorder::in_memory(memory.clock());
        network.set(Conditions::storm());
        let tasks = (0..4).map(|_| {
            let lock = recorder
                .client(Client::new(RemoteEngine::new(memory.clone(), &network)))
                .lock("a")
                .ttl(TTL / 2);
            tokio::spawn(async move {
                for round in 0..12 {
                    let Ok(guard) = lock.clone().wait(TTL).acquire().await else { continue };
                    tokio::select! {
                        _ = guard.lost() => {}
                        () = tokio::time::sleep(Duration::from_millis(round * 700)) => {}
                    }
                    drop(guard.release().await);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let history = recorder.history();
        let held = exclusion(&history, &Excuses::none()).unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        tokens(&history, &Excuses::none()).unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        told(&history, &Excuses::none()).unwrap_or_else(|v| panic!("seed {seed}: {v}"));
        judged += held.judged;
    }
    assert!(judged > 300, "{judged} holds show little");
}
