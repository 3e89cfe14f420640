//! What happens to ZooKeeper servers, to the network in front of them and to their nodes while locks are held and waited
//! for. On real servers, each test with its own.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, ErrorKind, Guard, Loss};
use testkit::proxy::Proxy;
use testkit::servers::{ZooKeeperAdmin, ZooKeeperMember, ZooKeeperOptions, ZooKeeperServer};

/// Longer than anything here takes, unless it is stuck.
const SOON: Duration = Duration::from_secs(10);

struct Scene {
    proxies: Vec<Proxy>,
    server: ZooKeeperServer,
}

impl Scene {
    fn new(options: ZooKeeperOptions) -> Self {
        let server = ZooKeeperServer::start(options);
        let proxies = server.members().iter().map(|member| Proxy::to(member.address())).collect();
        Self { proxies, server }
    }

    fn alone() -> Self {
        Self::new(ZooKeeperOptions::default())
    }

    /// A client behind the proxies.
    async fn client(&self, session: &str) -> Client {
        let hosts: Vec<_> = self.proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        connect(&hosts.join(","), session).await
    }

    /// A client that goes past them.
    async fn rival(&self, session: &str) -> Client {
        let hosts: Vec<_> = self.server.members().iter().map(|member| member.address().to_string()).collect();
        connect(&hosts.join(","), session).await
    }

    async fn admin(&self) -> ZooKeeperAdmin {
        ZooKeeperAdmin::connect(&self.server, None).await
    }

    fn member(&self) -> &ZooKeeperMember {
        &self.server.members()[0]
    }
}

async fn connect(hosts: &str, session: &str) -> Client {
    let url = format!("zookeeper://{hosts}/app?session-ttl={session}");
    latchwork::connect(&url).await.expect("the servers can be reached")
}

async fn take(client: &Client, lock: &str) -> Guard {
    let lock = client.lock(lock).ttl(Duration::from_secs(30)).wait(SOON * 2);
    lock.acquire().await.expect("it comes free")
}

async fn is_free(client: &Client, lock: &str) -> bool {
    let tried = client.lock(lock).try_acquire().await.expect("answers");
    match tried {
        Some(guard) => guard.release().await.is_ok(),
        None => false,
    }
}

async fn until_nodes(admin: &ZooKeeperAdmin, lock: &str, count: usize) -> Vec<String> {
    let waiting = async {
        loop {
            let mut nodes = admin.children(&format!("/app/{lock}")).await;
            if nodes.len() == count {
                nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
                return nodes;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.expect("so many nodes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_is_found_again_and_there_is_one_node() {
    let scene = Scene::alone();
    let (client, admin) = (scene.client("20s").await.with_note("the victim"), scene.admin().await);
    take(&client, "lost").await.release().await.expect("held");
    scene.proxies[0].lose_reply_to(b"the victim");
    let guard = take(&client, "lost").await;
    assert_eq!(scene.proxies[0].lost_replies(), 1, "the fault has happened");
    assert_eq!(admin.children("/app/lost").await.len(), 1, "it does not wait behind itself");
    assert!(guard.is_certain() && !is_free(&scene.rival("20s").await, "lost").await);
    guard.release().await.expect("held");
    assert_eq!(admin.children("/app/lost").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_reply_is_lost_is_repeated_and_touches_nobody_else() {
    let scene = Scene::alone();
    let (client, rival) = (scene.client("20s").await, scene.rival("20s").await);
    let guard = take(&client, "given").await;
    scene.proxies[0].lose_reply_to(b"-lock-");
    let (released, next) = tokio::join!(guard.release(), take(&rival, "given"));
    assert_eq!(scene.proxies[0].lost_replies(), 1, "the fault has happened");
    drop(released);
    client.close().await.expect("the repetition was answered");
    assert!(next.is_certain() && !is_free(&client, "given").await, "the next holder's node is there");
    next.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_cut_is_told_before_another_gets_its_lock() {
    let scene = Scene::alone();
    let (client, rival) = (scene.client("2s").await, scene.rival("2s").await);
    for fault in [Proxy::refuse, Proxy::black_hole] {
        let guard = take(&client, "cut").await;
        let waiting = tokio::spawn({
            let rival = rival.clone();
            async move { (take(&rival, "cut").await, Clock::boottime().now()) }
        });
        fault(&scene.proxies[0], true);
        assert_eq!(guard.lost().await, Loss::Unreachable);
        let told = Clock::boottime().now();
        let (next, granted) = waiting.await.expect("no panic");
        assert!(told < granted, "told {:?} after another was granted", told.since(granted));
        fault(&scene.proxies[0], false);
        assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
        client.close().await.expect("what is left is cleaned up");
        assert!(next.is_certain(), "what comes back does not disturb the next holder");
        next.release().await.expect("held");
    }
    take(&client, "cut").await.release().await.expect("a new session works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_for_longer_than_the_session_costs_the_lock_and_nothing_else() {
    let scene = Scene::alone();
    let client = scene.client("1s").await;
    let guard = take(&client, "paused").await;
    scene.member().pause();
    assert_eq!(guard.lost().await, Loss::Unreachable);
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.member().resume();
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    let token = take(&client, "paused").await.token().expect("tokens");
    assert!(take(&scene.rival("1s").await, "paused").await.token().expect("tokens") > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_keeps_the_lock_and_one_without_its_data_does_not() {
    let scene = Scene::alone();
    let (patient, client) = (scene.rival("30s").await, scene.rival("3s").await);
    let guard = take(&patient, "restart").await;
    scene.member().restart();
    assert!(guard.is_certain() && !is_free(&scene.rival("3s").await, "restart").await);
    guard.release().await.expect("held");
    let guard = take(&client, "restart").await;
    scene.member().restart_empty();
    let loss = tokio::time::timeout(SOON, guard.lost()).await.expect("told");
    assert!([Loss::Unreachable, Loss::SessionEnded].contains(&loss), "{loss:?}");
    drop(guard);
    // The server sends away a session that has seen more than itself; the client must get over it.
    take(&client, "restart").await.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_somebody_removed_is_told_at_once() {
    let scene = Scene::alone();
    let (client, admin) = (scene.client("20s").await, scene.admin().await);
    let guard = take(&client, "removed").await;
    // Its node is watched from the first renewal on, two ninths of the session later; the second is as far away.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let nodes = until_nodes(&admin, "removed", 1).await;
    admin.delete(&format!("/app/removed/{}", nodes[0])).await;
    let loss = tokio::time::timeout(Duration::from_millis(500), guard.lost()).await;
    assert_eq!(loss.expect("told at once"), Loss::Removed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_node_is_gone_enrols_again_and_the_one_behind_it_believes_nothing() {
    let scene = Scene::alone();
    let admin = scene.admin().await;
    let (one, two, three) = (scene.rival("20s").await, scene.rival("20s").await, scene.rival("20s").await);
    let held = take(&one, "queue").await;
    let middle = tokio::spawn(async move { take(&two, "queue").await });
    let nodes = until_nodes(&admin, "queue", 2).await;
    let last = tokio::spawn(async move { take(&three, "queue").await });
    until_nodes(&admin, "queue", 3).await;
    admin.delete(&format!("/app/queue/{}", nodes[1])).await;
    // The middle one comes back at the end of the queue.
    let again = until_nodes(&admin, "queue", 3).await;
    assert!(!again.contains(&nodes[1]));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!last.is_finished() && !middle.is_finished() && held.is_certain(), "one holds, and only one");
    held.release().await.expect("held");
    last.await.expect("no panic").release().await.expect("held");
    middle.await.expect("no panic").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_clients_nodes_exclude_and_what_only_looks_like_one_does_not() {
    let scene = Scene::alone();
    let (client, admin) = (scene.rival("20s").await, scene.admin().await);
    take(&client, "shared").await.release().await.expect("held");
    admin.make("/app/shared/1234567890").await;
    assert!(is_free(&client, "shared").await, "a node that outlives its session is no claim");
    for kind in ["0011__lock__", "0011__rlock__", "_c_0011-lock-", "_c_0011-__READ__", "member_"] {
        let node = admin.enrol(&format!("/app/shared/{kind}")).await;
        assert!(!is_free(&client, "shared").await, "{kind} excludes");
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { take(&client, "shared").await.release().await }
        });
        until_nodes(&admin, "shared", 3).await;
        admin.delete(&node).await;
        waiting.await.expect("no panic").expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_or_a_cut_member_costs_a_holder_nothing() {
    let scene = Scene::new(ZooKeeperOptions::three());
    let client = scene.client("10s").await;
    let guard = take(&client, "three").await;
    // Wherever the client is connected, it goes elsewhere with its session.
    scene.proxies.iter().for_each(Proxy::cut);
    let leader = scene.server.leader().expect("there is one");
    leader.kill();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(guard.is_certain(), "two of three go on");
    assert!(!is_free(&scene.client("10s").await, "three").await);
    guard.release().await.expect("held");
    take(&scene.client("10s").await, "three").await.release().await.expect("held");
    leader.restart();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_never_falls_back_and_no_error_shows_a_password() {
    let scene = Scene::new(ZooKeeperOptions::tls());
    let certificates = scene.server.certificates().expect("it speaks TLS");
    let (ca, other, client) = (certificates.ca(), certificates.other_ca(), certificates.client());
    let member = scene.member();
    let identity = format!("cert={}&key={}", client.certificate.display(), client.key.display());
    let (secure, plain) = (member.address(), member.plain_address());
    let url = |place: &str, ca: &std::path::Path, rest: &str| {
        format!("zookeeper+tls://app:canary@{place}/app?ca={}{rest}", ca.display())
    };
    let good = url(&secure.to_string(), &ca, &format!("&{identity}"));
    drop(latchwork::connect(&good).await.expect("good certificates"));
    for (bad, says) in [
        (url(&plain.to_string(), &ca, &format!("&{identity}")), ""),
        (url(&secure.to_string(), &other, &format!("&{identity}")), "ca= in the URL"),
        (format!("zookeeper://app:canary@{secure}/app?session-ttl=1s"), ""),
        ("zookeeper://app:canary@127.0.0.1:1/app".to_owned(), "refused"),
    ] {
        let error = latchwork::connect(&bad).await.err().unwrap_or_else(|| panic!("{bad} works"));
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}
