//! Heartbeats stop while the holder works, and it gets no error: it is told before its node is deleted on the
//! server.

use latchwork::engine::Filter;
use latchwork::{LockName, Loss, Token};
use testkit::history::{Fault, RecordedClient, RecordedGuard};
use testkit::servers::{ZooKeeperMember, ZooKeeperOptions};
use testkit::store::Written;
use testkit::workload::contenders::MARGIN;

use super::harness::{
    LASTING, LOCK, LONG, MORTAL, SOON, ZookeeperHarness, nodes, now, pause, take, until_nodes, wait_for_loss,
    wait_for_renewal,
};

/// The holder loses the lock while all traffic is lost; another client gets it, and late messages do that
/// client no harm.
async fn is_told_in_time(
    harness: &ZookeeperHarness,
    [client, other]: [RecordedClient; 2],
    guard: RecordedGuard,
    [darken, light]: [&dyn Fn(); 2],
    witness: &ZooKeeperMember,
) {
    let (old, mut store) = (guard.token().expect("certain"), harness.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    harness.recorder.fault_began(Fault::Partition);
    darken();
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let (told, early) = (now(), guard.lease_end().since(now()));
    assert!(!early.is_zero(), "told after its lease had ended");
    let admin = harness.admin_of(witness).await;
    assert_eq!(nodes(&admin, LOCK).await.len(), 1, "the node was deleted before its holder was told");
    until_nodes(&admin, LOCK, 0).await;
    println!("told {early:?} before the lease could end, and {:?} before the node died", now().since(told));
    let next = take(&other.lock(LOCK).ttl(LONG)).await;
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    drop(guard);
    light();
    harness.server.until_healthy();
    harness.recorder.fault_ended(Fault::Partition);
    // Heartbeats and a release that were held back arrive now.
    pause(500).await;
    assert!(next.is_certain(), "a late message revoked the lock");
    next.release().await.expect("held");
    // Judged through the member that was reachable all the time: the other may be behind.
    harness.judge(&[other, client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_in_a_silent_network_is_told_before_its_node_is_deleted() {
    let harness = ZookeeperHarness::one();
    for is_renewed in [true, false] {
        let pair = [harness.client(MORTAL).await, harness.rival(LASTING).await];
        let guard = take(&pair[0].lock(LOCK).ttl(LONG).with(|lock| lock.stop_margin(MARGIN))).await;
        if is_renewed {
            wait_for_renewal(&guard).await;
        }
        let [darken, light] = [true, false]
            .map(|is_dark| move |harness: &ZookeeperHarness| harness.proxy().black_hole(is_dark));
        is_told_in_time(&harness, pair, guard, [&|| darken(&harness), &|| light(&harness)], harness.member())
            .await;
    }
}

/// The other members end the session of a client that only knows the stopped member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_member_is_stopped_is_told_before_its_node_is_deleted() {
    let harness = ZookeeperHarness::three();
    let follower = harness.server.members().iter().find(|member| !member.is_leader()).expect("two follow");
    let leader = harness.server.leader().expect("there is a leader");
    let pair = [harness.client_of(follower, MORTAL).await, harness.client_of(leader, LASTING).await];
    let guard = take(&pair[0].lock(LOCK).ttl(LONG).with(|lock| lock.stop_margin(MARGIN))).await;
    wait_for_renewal(&guard).await;
    is_told_in_time(&harness, pair, guard, [&|| follower.pause(), &|| follower.resume()], leader).await;
}

/// A member that lost its leader continues to serve for a while, but its answers mean nothing: the others do
/// not receive its messages.
async fn is_told_though_its_member_answers(options: ZooKeeperOptions, which: fn(&ZooKeeperMember) -> bool) {
    let harness = ZookeeperHarness::new(options);
    let members = harness.server.members();
    let at = members.iter().position(which).expect("there is one");
    let (lonely, next) = (&members[at], &members[(at + 1) % 3]);
    let pair = [harness.client_of(lonely, MORTAL).await, harness.client_of(next, LASTING).await];
    let guard = take(&pair[0].lock(LOCK).ttl(LONG).with(|lock| lock.stop_margin(MARGIN))).await;
    wait_for_renewal(&guard).await;
    let [darken, light] = [&|| harness.server.cut_off(at), &|| harness.server.heal(at)] as [&dyn Fn(); 2];
    is_told_in_time(&harness, pair, guard, [darken, light], next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_member_is_cut_off_from_the_leader_is_told_before_its_node_is_deleted() {
    is_told_though_its_member_answers(ZooKeeperOptions::divisible(), |member| !member.is_leader()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_member_has_lost_its_followers_is_told_before_its_node_is_deleted() {
    // Before it notices that it has no followers, it answers every request that changes nothing.
    let options = ZooKeeperOptions { is_impatient: true, ..ZooKeeperOptions::divisible() };
    is_told_though_its_member_answers(options, ZooKeeperMember::is_leader).await;
}

/// A member that is cut off serves its old data. The lock was acquired without it, and must not be reported
/// as free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_cut_off_does_not_report_a_held_lock_as_free() {
    let harness = ZookeeperHarness::new(ZooKeeperOptions::divisible());
    let members = harness.server.members();
    let at = members.iter().position(|member| !member.is_leader()).expect("two follow");
    let lonely = harness.client_of(&members[at], LASTING).await;
    let holder = harness.client_of(&members[(at + 1) % 3], LASTING).await;
    // Both have a session before the cut.
    for client in [&lonely, &holder] {
        take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    }
    harness.recorder.fault_began(Fault::Partition);
    harness.server.cut_off(at);
    let guard = take(&holder.lock(LOCK).ttl(LONG)).await;
    let filter = Filter::Name(LockName::new(LOCK).expect("a good name"));
    let seen = lonely.client().inspect(&filter).await;
    assert!(seen.as_ref().is_err() || seen.as_ref().is_ok_and(|locks| !locks.is_empty()), "reported as free");
    harness.server.heal(at);
    harness.server.until_healthy();
    harness.recorder.fault_ended(Fault::Partition);
    let seen = lonely.client().inspect(&filter).await.expect("it is back");
    assert_eq!(seen[0].holders[0].token, guard.token().ok().map(Token::engine_token));
    guard.release().await.expect("the lock was held throughout");
    harness.judge(&[lonely, holder], SOON).await;
}
