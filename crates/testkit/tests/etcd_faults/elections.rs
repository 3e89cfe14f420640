//! One election, contended by our clients and by `etcdctl elect`.

use std::time::Duration;

use latchwork::engine::{Filter, Revoke};
use latchwork::{Election, Leader, LockName, Loss, Observer, Version};
use testkit::servers::EtcdServer;
use testkit::worker_process::WorkerProcess;
use tokio::time::timeout;

use super::beside_etcdctl::EtcdctlLock;
use super::harness::{EtcdHarness, LOCK, LONG, SOON, connect, lease_of, pause};

async fn election(harness: &EtcdHarness<EtcdServer>) -> Election {
    connect(&harness.direct_url()).await.election(LOCK).ttl(LONG)
}

async fn leader(election: &Election) -> Option<Leader> {
    election.leader().await.expect("an answer")
}

async fn next(leaders: &mut Observer) -> Leader {
    timeout(SOON, leaders.next()).await.expect("told").expect("an answer")
}

/// The key and the value that `etcdctl` prints.
async fn printed(theirs: &mut EtcdctlLock) -> (String, String) {
    (theirs.line().await, theirs.line().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_candidates_and_etcdctls_wait_for_each_other_and_see_the_leader() {
    let harness = EtcdHarness::one();
    let (ours, observing) = (election(&harness).await, election(&harness).await);
    let (mut leaders, mut listening) =
        (observing.observe(), EtcdctlLock::run(&harness, &["elect", "-l", LOCK]));
    assert_eq!(leader(&ours).await, None);
    let leading = ours.campaign("ours").await.expect("there is no leader");
    let mut theirs = EtcdctlLock::run(&harness, &["elect", LOCK, "theirs"]);
    let keys = harness.until_keys(2).await;
    assert!(theirs.waits().await, "our candidate leads");
    assert_eq!(printed(&mut listening).await, (keys[0].clone(), "ours".to_owned()));
    let first = Leader { term: leading.term(), value: b"ours".to_vec() };
    assert_eq!((leader(&observing).await, next(&mut leaders).await), (Some(first.clone()), first.clone()));

    leading.resign().await.expect("the leader held until here");
    assert_eq!(printed(&mut theirs).await, (keys[1].clone(), "theirs".to_owned()));
    assert_eq!(printed(&mut listening).await, (keys[1].clone(), "theirs".to_owned()));
    let second = next(&mut leaders).await;
    assert_eq!((leader(&observing).await, second.value.as_slice()), (Some(second.clone()), &b"theirs"[..]));
    assert!(second.term > first.term, "{second:?} after {first:?}");

    let campaigning = tokio::spawn(async move { ours.campaign("again").await });
    let keys = harness.until_keys(2).await;
    pause(100).await;
    assert!(!campaigning.is_finished(), "etcdctl leads");
    // After the kill it leads until its lease ends, which would be a minute.
    theirs.kill().await;
    pause(100).await;
    assert_eq!((leader(&observing).await, campaigning.is_finished()), (Some(second.clone()), false));
    harness.revoke_lease_of(&keys[0]);
    let leading = timeout(SOON, campaigning).await.expect("elected").expect("no panic").expect("elected");
    assert!(leading.term() > second.term);
    assert_eq!(next(&mut leaders).await, Leader { term: leading.term(), value: b"again".to_vec() });
    assert_eq!(printed(&mut listening).await, (keys[1].clone(), "again".to_owned()));
    leading.resign().await.expect("the leader held until here");
    assert_eq!((leader(&observing).await, harness.keys()), (None, Vec::new()));
    listening.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_takes_over_from_a_leader_of_ours_that_was_killed() {
    let harness = EtcdHarness::one();
    let observing = election(&harness).await;
    let mut leaders = observing.observe();
    let mut doomed = WorkerProcess::start(&["lead", "doomed", &harness.direct_url(), LOCK, "2000"]);
    let first = next(&mut leaders).await;
    assert_eq!(first.value, b"doomed");
    let mut theirs = EtcdctlLock::run(&harness, &["elect", LOCK, "theirs"]);
    let keys = harness.until_keys(2).await;
    assert!(theirs.waits().await, "our candidate leads");
    doomed.kill().await;
    assert_eq!(printed(&mut theirs).await, (keys[1].clone(), "theirs".to_owned()));
    let second = next(&mut leaders).await;
    assert!(second.term > first.term && second.value == b"theirs", "{second:?} after {first:?}");
    theirs.release().await;
    assert_eq!(leader(&observing).await, None);
}

/// One candidate waits behind the other in one client. The claim of the first carries the first one's value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_that_gives_up_leaves_its_place_but_not_its_value() {
    let harness = EtcdHarness::one();
    let (ours, other) = (election(&harness).await, election(&harness).await);
    let leading = other.campaign("other").await.expect("there is no leader");
    let campaign = |value: &'static str| {
        let ours = ours.clone();
        tokio::spawn(async move { ours.campaign(value).await })
    };
    let gives_up = campaign("gave up");
    harness.until_keys(2).await;
    let stays = campaign("stays");
    pause(100).await;
    gives_up.abort();
    let _ = gives_up.await;
    leading.resign().await.expect("the leader held until here");
    let leading = timeout(SOON, stays).await.expect("elected").expect("no panic").expect("elected");
    assert_eq!(leader(&other).await, Some(Leader { term: leading.term(), value: b"stays".to_vec() }));
    leading.resign().await.expect("the leader held until here");
    assert_eq!(harness.until_keys(0).await, Vec::<String>::new());
}

/// A leader publishes any bytes unchanged; neither a plain lock nor a cell publishes a leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_leaders_publish_a_value_and_it_may_be_any_bytes() {
    let harness = EtcdHarness::one();
    let client = connect(&harness.direct_url()).await;
    let (election, lock) = (client.election(LOCK).ttl(LONG), client.lock(LOCK));
    client.cell(LOCK).set_if(Version::ABSENT, "not a leader").await.expect("an answer");
    assert_eq!(leader(&election).await, None);
    let guard = lock.acquire().await.expect("there is no leader");
    assert_eq!(leader(&election).await, None, "the holder did not campaign");
    guard.release().await.expect("held");
    let like_a_claim = format!("{}\nnote", "0".repeat(32)).into_bytes();
    for value in [b"".to_vec(), b"!".to_vec(), vec![0, 0xff, b'\n'], like_a_claim, vec![7; 500_000]] {
        let leading = election.campaign(value.as_slice()).await.expect("there is no leader");
        assert_eq!(leader(&election).await, Some(Leader { term: leading.term(), value }));
        leading.resign().await.expect("the leader held until here");
    }
}

/// The leader sees the operator's mark, and no observer sees another value because of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_leader_is_told_and_its_value_stays_until_the_end() {
    let harness = EtcdHarness::one();
    let client = connect(&harness.direct_url()).await;
    let election = client.election(LOCK).ttl(Duration::from_secs(3));
    let leading = election.campaign("ours").await.expect("there is no leader");
    let key = harness.keys().remove(0);
    assert!(!lease_of(&key).is_empty());
    let name = LockName::new(LOCK).expect("a good name");
    let state = client.inspect(&Filter::Name(name)).await.expect("an answer").remove(0);
    assert_eq!(state.holders[0].note.as_str(), "ours");
    client.revoke(&state, Revoke::AtLeaseEnd).await.expect("an answer");
    assert_eq!(harness.etcdctl(&["get", "--print-value-only", &key]).trim_end(), "ours");
    assert_eq!(timeout(SOON, leading.lost()).await.expect("told"), Loss::Revoked);
}
