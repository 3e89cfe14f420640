//! Readers, writers and permits on one key: beside clients that do not know them, beside dead holders, and
//! their cost.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Claim, Engine, Filter, Mode, Released, Renewal, Revoke, Revoked, Valid, Wake};
use latchwork::{ErrorKind, LockName, Loss};

use super::claims::{busy, granted, granted_soon, renewed, trying, waiting};
use super::harness::{HazardHarness, LOCK, LONG, SOON, pause, until};
use super::redis_py;

const SHORT: Duration = Duration::from_millis(700);
const TWO: Mode = Mode::Permit { of: 2 };

fn tries(mode: Mode, ttl: Duration) -> Claim {
    let mut claim = trying(ttl);
    claim.mode = mode;
    claim
}

/// For as long as a queue entry can last without a heartbeat.
fn waits(mode: Mode) -> Claim {
    let mut claim = tries(mode, LONG);
    claim.wait_lease = Duration::from_secs(15);
    claim
}

async fn freed(engine: &impl Engine, claim: &Claim) {
    assert_eq!(engine.release(claim).await.expect("it answers"), Released::Freed);
}

/// The server's notification, without another request.
async fn pushed(engine: &impl Engine, claim: &Claim, busy: &latchwork::engine::Busy) -> u64 {
    let wake = tokio::time::timeout(SOON, engine.wait(claim, busy)).await.expect("told soon");
    match wake.expect("the waiter is subscribed") {
        Wake::Granted(grant) => grant.token.expect("a token"),
        Wake::Recheck => panic!("told to check, and not that it holds"),
    }
}

#[tokio::test]
async fn clients_that_set_the_key_are_excluded_by_readers_and_permits_until_the_last_has_left() {
    let harness = HazardHarness::new();
    let (engine, mut foreign) = (harness.engine("").await, harness.naive());
    for mode in [Mode::Read, TWO, Mode::Write] {
        let (one, other) = (tries(mode, LONG), tries(mode, LONG));
        granted(&engine, &one).await;
        assert!(!foreign.set_nx_px(LOCK, "foreign", 60_000), "{mode:?}");
        if mode != Mode::Write {
            granted(&engine, &other).await;
            freed(&engine, &one).await;
            assert!(!foreign.set_nx_px(LOCK, "foreign", 60_000), "{mode:?}: one is left");
            freed(&engine, &other).await;
        } else {
            freed(&engine, &one).await;
        }
        assert!(foreign.set_nx_px(LOCK, "foreign", 60_000), "{mode:?}: free");
        busy(&engine, &tries(mode, LONG)).await;
        assert_eq!(harness.value(LOCK).as_deref(), Some("foreign"));
        assert!(foreign.del(LOCK));
    }
    assert_eq!(harness.keys(), [format!("{{{LOCK}}}:latchwork1:f")], "left behind");
}

#[tokio::test]
async fn redis_py_and_our_readers_exclude_each_other() {
    let harness = HazardHarness::new();
    let mut theirs = redis_py::start(&harness, LONG);
    let client = harness.client("").await;
    let (read, write) = (client.rw_lock(LOCK).read(), client.rw_lock(LOCK).write());
    let reads = read.acquire().await.expect("free");
    assert_eq!(theirs.ask("acquire").await, "busy");
    reads.release().await.expect("held");
    assert_eq!(theirs.ask("acquire").await, "held");
    assert!(read.try_acquire().await.expect("it answers").is_none());
    assert!(write.try_acquire().await.expect("it answers").is_none());
    let waiting = tokio::spawn(async move { read.acquire().await.expect("the lock becomes free") });
    harness.until_queued(1).await;
    assert_eq!(theirs.ask("release").await, "ok");
    let reads = tokio::time::timeout(SOON, waiting).await.expect("soon").expect("no panic");
    assert_eq!(theirs.ask("acquire").await, "busy");
    reads.release().await.expect("held");
}

/// Any value that another client writes into the key is its own, even one that looks like ours.
#[tokio::test]
async fn a_foreign_value_that_looks_like_that_of_readers_admits_no_reader() {
    let harness = HazardHarness::new();
    let (engine, mut foreign) = (harness.engine("").await, harness.naive());
    let id = "0123456789abcdef0123456789abcdef";
    for value in [&format!("r:{id}"), &format!("p2:{id}"), "r:", "r:me", "p2:me", "r", "?", ""] {
        assert!(foreign.set_nx_px(LOCK, value, 60_000));
        for mode in [Mode::Read, TWO, Mode::Write, Mode::Exclusive] {
            let claim = waits(mode);
            busy(&engine, &claim).await;
            freed(&engine, &claim).await;
        }
        assert_eq!(harness.value(LOCK).as_deref(), Some(value));
        assert!(harness.pttl(LOCK) > 50_000, "its lease is its own");
        assert!(foreign.del(LOCK));
    }
    assert_eq!(foreign.ask(&["RPUSH", LOCK, "element"]).integer(), 1);
    busy(&engine, &tries(Mode::Read, LONG)).await;
    assert_eq!(foreign.ask(&["LLEN", LOCK]).integer(), 1);
}

#[tokio::test]
async fn the_last_reader_leaves_a_gap_and_the_next_readers_are_admitted_together() {
    let harness = HazardHarness::new();
    let mut foreign = harness.naive();
    let (writer, readers) = (waits(Mode::Write), [waits(Mode::Read), waits(Mode::Read)]);
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(harness.engine("handover=wake&gap=5s").await);
    }
    let first = tries(Mode::Read, LONG);
    granted(&engines[0], &first).await;
    for (engine, claim) in engines.iter().zip([&writer, &readers[0], &readers[1]]) {
        busy(engine, claim).await;
    }
    freed(&engines[0], &first).await;
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000), "the gap is for other programs");
    busy(&engines[0], &writer).await;
    assert!(foreign.del(LOCK));
    // It had its turn, so the gap is over.
    granted(&engines[0], &writer).await;
    freed(&engines[0], &writer).await;
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000));
    let answer = busy(&engines[2], &readers[1]).await;
    assert!(foreign.del(LOCK));
    granted(&engines[1], &readers[0]).await;
    pushed(&engines[2], &readers[1], &answer).await;
}

#[tokio::test]
async fn a_dead_reader_expires_with_its_own_lease() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    let (dead, alive) = (tries(Mode::Read, SHORT), tries(Mode::Read, LONG));
    granted(&engine, &alive).await;
    granted(&engine, &dead).await;
    let writer = waits(Mode::Write);
    busy(&engine, &writer).await;
    pause(SHORT.as_millis() as u64 + 50).await;
    assert!(matches!(renewed(&engine, &dead).await, Renewal::Lost(_)), "a lease that ended stays so");
    assert_eq!(renewed(&engine, &alive).await, Renewal::Kept(Valid::For(LONG)));
    assert!(harness.pttl(LOCK) > 20_000, "for as long as the other's");
    freed(&engine, &alive).await;
    assert_eq!(harness.value(LOCK), Some(writer.id.to_string()), "the dead reader is not waited for");
}

/// The key must not end later than the last lease of the remaining readers, or a writer would wait for a
/// reader that is gone.
#[tokio::test]
async fn a_writer_waits_for_a_dead_readers_lease_and_not_for_that_of_a_reader_that_left() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    let (dead, leaves) = (tries(Mode::Read, SHORT), tries(Mode::Read, LONG));
    granted(&engine, &leaves).await;
    granted(&engine, &dead).await;
    freed(&engine, &leaves).await;
    let left = harness.pttl(LOCK);
    assert!((1..=SHORT.as_millis() as i64).contains(&left), "{left} ms");
    let answer = busy(&engine, &waits(Mode::Write)).await;
    assert!(answer.again_in <= SHORT + Duration::from_millis(2), "{:?}", answer.again_in);
}

#[tokio::test]
async fn only_a_dead_holders_permit_is_returned_and_the_first_waiter_claims_it_in_time() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    let (dead, alive, next, last) = (tries(TWO, SHORT), tries(TWO, LONG), waits(TWO), waits(TWO));
    granted(&engine, &dead).await;
    granted(&engine, &alive).await;
    let answer = busy(&engine, &next).await;
    assert!(answer.again_in <= SHORT + Duration::from_millis(2), "{:?}", answer.again_in);
    assert_eq!(answer.position, Some(2), "two hold");
    let behind = busy(&engine, &last).await;
    assert_eq!(behind.position, Some(3));
    granted_soon(&engine, &next).await;
    busy(&engine, &last).await;
    assert_eq!(renewed(&engine, &alive).await, Renewal::Kept(Valid::For(LONG)));
    freed(&engine, &alive).await;
    granted(&engine, &last).await;
}

/// No client releases a writer that waited and died: the readers behind it detect it.
#[tokio::test]
async fn readers_behind_a_writer_that_died_in_the_queue_are_admitted_beside_the_present_readers() {
    let harness = HazardHarness::new();
    let [engine, silent] = [harness.engine("").await, harness.engine("").await];
    let (reads, mut writer) = (tries(Mode::Read, LONG), waiting(SHORT));
    writer.mode = Mode::Write;
    granted(&engine, &reads).await;
    busy(&silent, &writer).await;
    let behind = [waits(Mode::Read), waits(Mode::Read)];
    busy(&engine, &behind[0]).await;
    let told = busy(&engine, &behind[1]).await;
    let token = granted_soon(&engine, &behind[0]).await.token;
    assert!(Some(pushed(&engine, &behind[1], &told).await) > token, "together, and in their order");
    assert_eq!(harness.queued(), 0);
}

#[tokio::test]
async fn readers_behind_a_writer_that_gives_up_are_admitted() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    let (reads, behind) = (tries(Mode::Read, LONG), [waits(Mode::Read), waits(Mode::Read)]);
    for gives_up in [waits(Mode::Write), waits(TWO)] {
        granted(&engine, &reads).await;
        busy(&engine, &gives_up).await;
        let answers = [busy(&engine, &behind[0]).await, busy(&engine, &behind[1]).await];
        freed(&engine, &gives_up).await;
        for (reader, answer) in behind.iter().zip(&answers) {
            pushed(&engine, reader, answer).await;
        }
        for reader in behind.iter().chain([&reads]) {
            freed(&engine, reader).await;
        }
    }
}

/// An operator deletes the key: the former readers are not among those that come after that, in whatever way
/// these come in.
#[tokio::test]
async fn readers_whose_key_was_deleted_are_lost_and_do_not_count_any_more() {
    let harness = HazardHarness::new();
    let (engine, mut foreign) = (harness.engine("").await, harness.naive());
    let (writer, later) = (tries(Mode::Write, LONG), waits(TWO));
    for is_handed_over in [false, true] {
        let (former, next) = (tries(TWO, LONG), waits(TWO));
        granted(&engine, &former).await;
        assert!(foreign.del(LOCK));
        if is_handed_over {
            granted(&engine, &writer).await;
            let answer = busy(&engine, &next).await;
            freed(&engine, &writer).await;
            pushed(&engine, &next, &answer).await;
        } else {
            granted(&engine, &next).await;
        }
        assert_eq!(renewed(&engine, &former).await, Renewal::Lost(Loss::Removed));
        granted(&engine, &later).await;
        assert_eq!(engine.release(&former).await.expect("it answers"), Released::NotHeld);
        busy(&engine, &tries(TWO, LONG)).await;
        freed(&engine, &next).await;
        freed(&engine, &later).await;
    }
}

#[tokio::test]
async fn three_hundred_readers_behind_a_writer_are_admitted_by_its_release_each_with_a_token() {
    let harness = HazardHarness::new();
    let (holder, engine) = (harness.engine("").await, harness.engine("").await);
    let writer = tries(Mode::Write, LONG);
    granted(&holder, &writer).await;
    let mut readers = Vec::new();
    for _ in 0..300 {
        let reader = waits(Mode::Read);
        let answer = busy(&engine, &reader).await;
        readers.push((reader, answer));
    }
    let requests = harness.server.calls(&["evalsha"]);
    freed(&holder, &writer).await;
    let mut newest = 0;
    for (reader, answer) in &readers {
        let token = pushed(&engine, reader, answer).await;
        assert!(token > newest, "in the order in which they came");
        newest = token;
    }
    assert_eq!(harness.server.calls(&["evalsha"]) - requests, 1, "no client had to poll");
    let claims: Vec<_> = readers.iter().map(|(reader, _)| Arc::new(reader.clone())).collect();
    let kept = engine.renew(&claims).await;
    assert!(kept.iter().all(|kept| matches!(kept, Ok(Renewal::Kept(_)))), "in one request");
    assert_eq!(harness.server.calls(&["evalsha"]) - requests, 2);
    for (reader, _) in &readers {
        freed(&engine, reader).await;
    }
    assert_eq!(harness.value(LOCK), None);
}

#[tokio::test]
async fn a_claim_costs_one_request_and_no_more_commands_beside_many_than_beside_few() {
    const COMMANDS: [&str; 14] = [
        "get",
        "mget",
        "set",
        "del",
        "exists",
        "pexpire",
        "zadd",
        "zrem",
        "zrange",
        "zrangebyscore",
        "zrank",
        "zscore",
        "time",
        "publish",
    ];
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    for mode in [Mode::Read, Mode::Permit { of: 1_000 }] {
        let first = tries(mode, LONG);
        granted(&engine, &first).await;
        let cost = async || {
            let claim = tries(mode, LONG);
            let before = (harness.server.calls(&["evalsha", "eval"]), harness.server.calls(&COMMANDS));
            granted(&engine, &claim).await;
            renewed(&engine, &claim).await;
            freed(&engine, &claim).await;
            let after = (harness.server.calls(&["evalsha", "eval"]), harness.server.calls(&COMMANDS));
            assert_eq!(after.0 - before.0, 3, "one request each");
            after.1 - before.1
        };
        let few = cost().await;
        let many: Vec<_> = (0..500).map(|_| tries(mode, LONG)).collect();
        for claim in &many {
            granted(&engine, claim).await;
        }
        assert_eq!(cost().await, few, "{mode:?}");
        for claim in many.iter().chain([&first]) {
            freed(&engine, claim).await;
        }
    }
}

#[tokio::test]
async fn claims_of_all_modes_are_renewed_together_and_each_gets_its_own_answer() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    let named = |name, mode| {
        let mut claim = tries(mode, LONG);
        claim.name = LockName::new(name).expect("a good name");
        claim
    };
    let claims = [
        named("a", Mode::Exclusive),
        named("b", Mode::Read),
        named("c", Mode::Write),
        named("d", TWO),
        named("e", Mode::Read),
    ]
    .map(Arc::new);
    for claim in &claims {
        granted(&engine, claim).await;
    }
    freed(&engine, &claims[2]).await;
    freed(&engine, &claims[4]).await;
    let answers: Vec<_> =
        engine.renew(&claims).await.into_iter().map(|answer| answer.expect("one")).collect();
    let (kept, lost) = (Renewal::Kept(Valid::For(LONG)), Renewal::Lost(Loss::Removed));
    assert_eq!(answers, [kept, kept, lost, kept, lost]);
}

#[tokio::test]
async fn one_of_several_holders_is_revoked_and_the_others_stay() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    let look = async || {
        let filter = Filter::Name(trying(LONG).name);
        engine.inspect(&filter).await.expect("it answers").pop()
    };
    let claims = [tries(TWO, LONG), tries(TWO, LONG)];
    let mut tokens = Vec::new();
    for claim in &claims {
        tokens.push(granted(&engine, claim).await.token);
    }
    let next = waits(TWO);
    let waiting = busy(&engine, &next).await;
    let mut state = look().await.expect("it is held");
    assert_eq!(state.holders.iter().map(|holder| holder.token).collect::<Vec<_>>(), tokens);
    assert_eq!(state.waiters.len(), 1);
    state.holders.retain(|holder| holder.id == claims[0].id);
    for _ in 0..2 {
        assert_eq!(engine.revoke(&state, Revoke::AtLeaseEnd).await.expect("it answers"), Revoked::Done);
        state = look().await.expect("it is held");
        assert_eq!(state.holders.len(), 2, "until its lease ends");
        assert!(state.holders[0].note.as_str().ends_with("(revoked)"), "{state:?}");
        state.holders.truncate(1);
    }
    assert_eq!(renewed(&engine, &claims[0]).await, Renewal::Lost(Loss::Revoked));
    assert_eq!(renewed(&engine, &claims[1]).await, Renewal::Kept(Valid::For(LONG)));
    busy(&engine, &next).await;
    // Now, and for the one that was revoked before: its permit goes to the next in the queue.
    assert_eq!(engine.revoke(&state, Revoke::Now).await.expect("it answers"), Revoked::Done);
    pushed(&engine, &next, &waiting).await;
    assert_eq!(engine.release(&claims[0]).await.expect("it answers"), Released::NotHeld);
    assert_eq!(engine.revoke(&state, Revoke::Now).await.expect("it answers"), Revoked::NotHeld);
    assert_eq!(renewed(&engine, &claims[1]).await, Renewal::Kept(Valid::For(LONG)));
    let everything = look().await.expect("it is held");
    assert_eq!(engine.revoke(&everything, Revoke::Now).await.expect("it answers"), Revoked::Done);
    assert!(look().await.is_none() && harness.value(LOCK).is_none(), "all that were named");
}

/// The newest grant names it until another client comes.
#[tokio::test]
async fn a_holder_that_has_left_is_revoked_without_those_that_stayed() {
    for how in [Revoke::Now, Revoke::AtLeaseEnd] {
        for mode in [Mode::Read, TWO] {
            let harness = HazardHarness::new();
            let engine = harness.engine("").await;
            let (stays, leaves) = (tries(mode, LONG), tries(mode, LONG));
            granted(&engine, &stays).await;
            granted(&engine, &leaves).await;
            let filter = Filter::Name(trying(LONG).name);
            let mut state = engine.inspect(&filter).await.expect("it answers").remove(0);
            state.holders.retain(|holder| holder.id == leaves.id);
            freed(&engine, &leaves).await;
            assert_eq!(engine.revoke(&state, how).await.expect("it answers"), Revoked::NotHeld);
            busy(&engine, &tries(Mode::Write, LONG)).await;
            assert_eq!(renewed(&engine, &stays).await, Renewal::Kept(Valid::For(LONG)));
            freed(&engine, &stays).await;
        }
    }
}

#[tokio::test]
async fn the_remains_of_the_last_revoked_holder_end_with_its_lease() {
    let harness = HazardHarness::new();
    let engine = harness.engine("").await;
    granted(&engine, &tries(Mode::Read, SHORT)).await;
    let filter = Filter::Name(trying(LONG).name);
    let state = engine.inspect(&filter).await.expect("it answers").remove(0);
    assert_eq!(engine.revoke(&state, Revoke::AtLeaseEnd).await.expect("it answers"), Revoked::Done);
    let keys = harness.server.command(&["KEYS", "*latchwork1:[hl]"]);
    let keys: Vec<_> = keys.array().iter().map(|key| key.text()).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in keys {
        assert!(harness.pttl(&key) > 0, "{key} would stay for ever");
    }
}

/// The gap after a release is for clients that poll, beside waiters of ours.
#[tokio::test]
async fn a_holder_that_did_not_wait_leaves_no_gap() {
    let harness = HazardHarness::new();
    let engine = harness.engine("handover=wake&gap=5s").await;
    for mode in [Mode::Read, TWO, Mode::Read] {
        let claim = tries(mode, LONG);
        granted(&engine, &claim).await;
        freed(&engine, &claim).await;
    }
}

#[tokio::test]
async fn the_older_schemes_name_the_scheme_that_can_share() {
    let harness = HazardHarness::new();
    let client = harness.client("scheme=setnx").await;
    for lock in [client.rw_lock(LOCK).read(), client.rw_lock(LOCK).write(), client.semaphore(LOCK, 2)] {
        let error = lock.acquire().await.expect_err("it cannot");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("redis-setnx has no"), "{error}");
    }
    let engine = harness.engine("scheme=setnx").await;
    let error = engine.claim(&tries(Mode::Read, LONG)).await.expect_err("it cannot");
    assert!(error.to_string().contains("scheme=set "), "{error}");
    // But it waits for those that do, and hands over to them.
    let (set, writer) = (harness.engine("").await, waiting(LONG));
    let (reads, later) = (tries(Mode::Read, LONG), [waits(Mode::Read), waits(Mode::Read)]);
    granted(&set, &reads).await;
    busy(&engine, &writer).await;
    let answers = [busy(&set, &later[0]).await, busy(&set, &later[1]).await];
    freed(&set, &reads).await;
    granted(&engine, &writer).await;
    freed(&engine, &writer).await;
    pushed(&set, &later[0], &answers[0]).await;
    pushed(&set, &later[1], &answers[1]).await;
    until("nobody waits", || harness.queued() == 0).await;
}

/// One request renews all readers, and the server stops it at the key that another program wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_key_costs_no_reader_of_another_lock() {
    const TTL: Duration = Duration::from_secs(2);
    let harness = HazardHarness::new();
    let (client, mut foreign) = (harness.client("").await, harness.naive());
    let mut guards = Vec::new();
    for number in 0..20 {
        let lock = client.rw_lock(format!("unrelated/{number}")).read().ttl(TTL);
        guards.push(lock.acquire().await.expect("free"));
    }
    let damaged = client.rw_lock(LOCK).read().ttl(TTL).acquire().await.expect("free");
    let leases = format!("{{{LOCK}}}:latchwork1:l");
    assert!(foreign.del(&leases) && foreign.set_nx_px(&leases, "foreign", 60_000));
    tokio::time::timeout(SOON, damaged.lost()).await.expect("the lock cannot be renewed");
    pause(TTL.as_millis() as u64).await;
    let lost = guards.iter().filter(|guard| !guard.is_certain()).count();
    assert_eq!(lost, 0, "of {} unrelated locks", guards.len());
}
