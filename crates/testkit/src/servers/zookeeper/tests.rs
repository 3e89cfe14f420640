use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_killed_server_keeps_its_data() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::default());
    let member = &server.members()[0];
    runtime().block_on(async { ZooKeeperAdmin::connect(&server, None).await.make("/kept").await });
    assert!(server.is_healthy() && !member.is_leader());
    member.kill();
    assert!(!server.is_healthy());
    member.restart();
    assert!(server.is_healthy());
    let children =
        runtime().block_on(async { ZooKeeperAdmin::connect(&server, None).await.children("/").await });
    assert!(children.contains(&"kept".to_owned()), "{children:?}");
}

#[test]
fn three_members_have_a_leader_and_elect_another() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::three());
    let leader = server.leader().expect("there is one");
    leader.kill();
    until(|| server.leader().is_some(), "two of three lead on");
    leader.restart();
    assert!(server.is_healthy());
}

#[test]
fn a_leader_that_is_cut_off_steps_down_and_follows_after_the_heal() {
    let options = ZooKeeperOptions { is_impatient: true, ..ZooKeeperOptions::divisible() };
    let server = ZooKeeperServer::start(options);
    let members = server.members();
    let former = members.iter().position(ZooKeeperMember::is_leader).expect("there is one");
    server.cut_off(former);
    server.until_healthy();
    let leader = members
        .iter()
        .position(|member| std::ptr::eq(member, server.leader().expect("the member is healthy")));
    assert_ne!(leader, Some(former));
    until(|| !members[former].serves(), "it leads nobody");
    server.heal(former);
    server.until_healthy();
    assert!(!members[former].is_leader() && server.is_healthy());
}

fn until(so: impl Fn() -> bool, what: &str) {
    let clock = latchwork::clock::Clock::boottime();
    let patience = clock.now().after(START_LIMIT);
    while !so() {
        assert!(clock.now() < patience, "{what}");
        std::thread::sleep(GLANCE);
    }
}
