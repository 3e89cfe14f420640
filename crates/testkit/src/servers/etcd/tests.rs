use std::path::Path;

use super::*;

const IMPATIENT: Duration = Duration::from_millis(400);

fn put(server: &EtcdServer) {
    server.etcdctl(&["put", "key", "value"]);
}

/// The value of the key, or an empty string.
fn got(server: &EtcdServer) -> String {
    server.etcdctl(&["get", "--print-value-only", "key"]).trim_end().to_owned()
}

fn until(so: impl Fn() -> bool) {
    let begun = Clock::boottime().now();
    while !so() {
        assert!(Clock::boottime().now().since(begun) < START_LIMIT, "the condition does not become true");
        std::thread::sleep(GLANCE);
    }
}

#[test]
fn data_is_there_after_a_kill_and_gone_after_an_empty_start() {
    let server = EtcdServer::start(EtcdOptions::default());
    let (address, pid) = (server.address(), server.pid());
    put(&server);
    server.kill();
    assert!(!server.runs() && !server.is_healthy());
    assert!(server.owner().within(IMPATIENT).run(&["get", "key"]).is_err(), "nobody listens");
    server.restart();
    assert_eq!(server.address(), address);
    assert_ne!(server.pid(), pid);
    assert_eq!(got(&server), "value");
    server.restart_empty();
    assert_eq!(got(&server), "");
}

#[test]
fn a_paused_server_lets_requests_hang_until_it_continues() {
    let server = EtcdServer::start(EtcdOptions::default());
    server.pause();
    let error =
        server.owner().within(IMPATIENT).run(&["put", "key", "value"]).expect_err("the member is stopped");
    assert!(error.contains("deadline exceeded"), "{error}");
    assert!(!server.is_healthy());
    server.resume();
    put(&server);
    assert!(server.is_healthy());
    server.pause();
    server.kill();
}

#[test]
fn a_dropped_server_has_ended() {
    let server = EtcdServer::start(EtcdOptions::default());
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}

#[test]
fn calls_are_counted_by_name_and_from_the_start() {
    let server = EtcdServer::start(EtcdOptions::default());
    assert_eq!(server.calls(&["Put", "Range"]), 0, "a health check is not counted");
    put(&server);
    put(&server);
    got(&server);
    assert_eq!((server.calls(&["Put"]), server.calls(&["Put", "Range"])), (2, 3));
    server.restart();
    assert_eq!(server.calls(&["Put", "Range"]), 0);
}

#[test]
fn a_lease_can_be_as_short_as_a_second() {
    let server = EtcdServer::start(EtcdOptions::default());
    let granted = server.etcdctl(&["lease", "grant", "1"]);
    assert!(granted.contains("granted with TTL(1s)"), "{granted}");
}

#[test]
fn a_server_with_tls_requires_a_client_certificate() {
    let tls = EtcdTls::mutual();
    let server = EtcdServer::start(EtcdOptions { tls: Some(tls.clone()), ..EtcdOptions::default() });
    put(&server);
    let [ours, stranger] = [tls.certificates.client(), tls.certificates.stranger()];
    assert!(server.anybody().identity(&ours).within(IMPATIENT).run(&["get", "key"]).is_ok());
    for without in [server.anybody(), server.anybody().identity(&stranger)] {
        let error = without.within(IMPATIENT).run(&["get", "key"]).expect_err("the user lacks the right");
        assert!(error.contains("TransientFailure"), "the connection fails: {error}");
    }
    assert_eq!(server.calls(&["Range"]), 1, "no request was sent");
    let tls = Some(EtcdTls { clients_need_one: false, ..tls });
    let open = EtcdServer::start(EtcdOptions { tls, ..EtcdOptions::default() });
    assert!(open.anybody().run(&["get", "key"]).is_ok(), "the server requires no certificate");
    assert_eq!(server.calls(&["Put"]), 1, "metrics are served without TLS");
}

#[test]
fn a_user_has_its_prefix_and_nothing_else() {
    let grant = Some("app/".to_owned());
    let server = EtcdServer::start(EtcdOptions { grant, ..EtcdOptions::default() });
    let user = server.anybody().user(EtcdOptions::USER);
    let refused = |who: &Etcdctl, words: &[&str]| who.run(words).expect_err("the user lacks the right");
    for round in 0..3 {
        assert!(user.run(&["put", "app/key", "value"]).is_ok());
        for words in [&["put", "apq", "value"][..], &["get", "ap"], &["get", "--prefix", ""]] {
            let error = refused(&user, words);
            assert!(error.contains("permission denied"), "{error}");
        }
        let error = refused(&server.anybody(), &["get", "app/key"]);
        assert!(error.contains("user name is empty"), "{error}");
        assert!(server.anybody().user(["app", "wrong"]).run(&["get", "app/key"]).is_err());
        put(&server);
        assert!(server.is_healthy());
        match round {
            0 => server.restart(),
            _ => server.restart_empty(),
        }
    }
}

#[test]
fn a_cluster_survives_the_kill_of_its_leader_and_takes_it_back() {
    let cluster = EtcdCluster::start(EtcdOptions::default());
    let first = cluster.leader();
    cluster.etcdctl(&["put", "key", "before"]);
    cluster.member(first).kill();
    let second = cluster.leader();
    assert_ne!(second, first);
    cluster.member(second).etcdctl(&["put", "key", "value"]);
    cluster.member(first).restart();
    cluster.until_healthy();
    assert_eq!(got(cluster.member(first)), "value");
}

#[test]
fn a_cluster_without_a_majority_commits_nothing() {
    let cluster = EtcdCluster::start(EtcdOptions::default());
    cluster.member(0).kill();
    cluster.member(1).pause();
    let left = cluster.member(2).owner().within(IMPATIENT * 3);
    assert!(left.run(&["put", "key", "value"]).is_err());
    assert!(!cluster.is_healthy());
    cluster.member(1).resume();
    cluster.until_healthy();
    put(cluster.member(2));
}

#[test]
fn a_member_that_was_cut_off_comes_back() {
    let cluster = EtcdCluster::start_divisible(EtcdOptions::default());
    for lonely in [cluster.leader(), (cluster.leader() + 1) % 3] {
        put(cluster.member(lonely));
        cluster.cut_off(lonely);
        let next = cluster.leader();
        assert_ne!(next, lonely, "it has no followers");
        cluster.member(next).etcdctl(&["put", "key", "newer"]);
        until(|| !cluster.member(lonely).knows_leader());
        let asked = cluster.member(lonely).owner().within(IMPATIENT * 3);
        assert!(asked.run(&["get", "key"]).is_err(), "no majority behind it");
        assert!(asked.run(&["get", "--consistency=s", "key"]).is_ok_and(|old| old.contains("value")));
        assert!(!cluster.member(lonely).knows_leader(), "it receives nothing from the others, either");
        cluster.heal(lonely);
        cluster.until_healthy();
        assert_eq!(got(cluster.member(lonely)), "newer");
    }
}

#[test]
fn a_cluster_can_be_restricted_to_one_user() {
    let options = EtcdOptions { grant: Some("app/".to_owned()), ..EtcdOptions::default() };
    let cluster = EtcdCluster::start(options);
    for member in cluster.members() {
        let user = member.anybody().user(EtcdOptions::USER);
        assert!(user.run(&["put", "app/key", "value"]).is_ok());
        assert!(user.run(&["put", "key", "value"]).is_err());
    }
    assert_eq!(cluster.calls(&["Put"]), 3 * 2);
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let arguments = vec!["--no-such-setting".to_owned()];
    let starting = || EtcdServer::start(EtcdOptions { arguments, ..EtcdOptions::default() });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(starting)).err().expect("it cannot");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("no-such-setting"), "{message}");
}

#[test]
fn a_port_that_is_taken_is_distinguished_from_other_failures() {
    let server = EtcdServer::prepare(MemberAddress::new("alone".to_owned()), EtcdOptions::default());
    let ports = [server.place.client, server.place.peer, server.place.figures];
    for port in ports {
        let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(server.launch().is_err());
        drop(taken);
    }
    assert!(server.launch().is_ok());
}
