use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_server_keeps_what_it_was_told_when_it_is_killed() {
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
fn three_members_have_a_leader_and_get_another() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::three());
    let leader = server.leader().expect("there is one");
    leader.kill();
    let clock = latchwork::clock::Clock::boottime();
    let patience = clock.now().after(std::time::Duration::from_secs(30));
    while server.leader().is_none() {
        assert!(clock.now() < patience, "two of three lead on");
    }
    leader.restart();
    assert!(server.is_healthy());
}
