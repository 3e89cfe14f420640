//! An error after which nothing can be held does not say that the lock may be held.
//!
//! Nothing was sent, or the server refused the request as a whole. The conformance case
//! `an_error_before_anything_was_sent_reports_no_effect` covers a server that is down.

use std::time::Duration;

use latchwork::engine::Filter;
use latchwork::{Client, Effect, Error, ErrorKind, LockName};
use testkit::servers::{
    EtcdOptions, EtcdServer, MariadbOptions, MariadbServer, PostgresOptions, PostgresServer, RedisOptions,
    RedisServer, ZooKeeperOptions, ZooKeeperServer,
};

/// No request of an attempt is in flight for this long, even on a machine that stalls for half a second.
const A_WHILE: Duration = Duration::from_secs(1);

/// The suffix of a database's URL, for each scheme.
const SQL: [&str; 3] = ["", "?scheme=insert", "?scheme=session"];

fn did_nothing(error: &Error, kinds: &[ErrorKind]) {
    println!("{error}");
    assert!(kinds.contains(&error.kind()), "{error}");
    assert_eq!((error.effect(), error.may_be_held_until()), (Effect::None, None), "{error}");
    let text = error.to_string();
    assert!(!text.contains("may have acted") && !text.contains("may be held"), "{text}");
}

/// Neither a try nor a waiting attempt leaves anything behind, or says that it might.
async fn is_refused(client: &Client, name: &str, kind: ErrorKind) {
    let lock = client.lock(name);
    did_nothing(&lock.try_acquire().await.expect_err("refused"), &[kind]);
    did_nothing(&lock.clone().wait(A_WHILE).acquire().await.expect_err("refused"), &[kind]);
    did_nothing(&lock.try_acquire().await.expect_err("refused, and not because the lock is held"), &[kind]);
    client.close().await.expect("nothing is left to release");
}

/// The server does not accept this user.
async fn is_not_let_in(url: &str) {
    let error = latchwork::connect(url).await.err().unwrap_or_else(|| panic!("{url}: the user is accepted"));
    did_nothing(&error, &[ErrorKind::Denied]);
}

#[tokio::test]
async fn an_unreachable_server_was_sent_nothing() {
    for host in ["127.0.0.1:1", "nowhere.invalid:1"] {
        for (engine, schemes) in [
            ("redis", &["", "?scheme=setnx", "?scheme=getset"][..]),
            ("redlock", &[""]),
            ("memcached", &[""]),
            ("etcd", &[""]),
            ("zookeeper", &["", "?scheme=single"]),
            ("postgres", &SQL),
            ("mysql", &SQL),
            ("mariadb", &SQL),
        ] {
            let (user, path) = if schemes == SQL { ("me@", "/locks") } else { ("", "") };
            let hosts = if engine == "redlock" {
                [1, 2, 3].map(|port| host.replace(":1", &format!(":{port}"))).join(",")
            } else {
                host.to_owned()
            };
            for scheme in schemes {
                let url = format!("{engine}://{user}{hosts}{path}{scheme}");
                let connected = latchwork::connect(&url).await;
                let error = connected.err().unwrap_or_else(|| panic!("{url}: no server listens there"));
                did_nothing(&error, &[ErrorKind::Unreachable]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_reports_no_effect_for_a_refused_request() {
    let server = RedisServer::start(RedisOptions::default());
    let client = latchwork::connect(&format!("redis://{}", server.address()))
        .await
        .expect("the server accepts the connection");
    // A queue key of another lock: nothing is sent.
    is_refused(&client, "a:latchwork1:q", ErrorKind::Invalid).await;

    let rights = ["ACL", "SETUSER", "weak", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval"];
    assert!(server.command(&rights).is("OK"));
    let url = format!("redis://weak:secret@{}", server.address());
    let weak = latchwork::connect(&url).await.expect("the user may log in");
    is_refused(&weak, "a", ErrorKind::Denied).await;
    for scheme in ["", "?scheme=setnx", "?scheme=getset"] {
        is_not_let_in(&format!("redis://weak:wrong@{}{scheme}", server.address())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_cluster_reports_no_effect_for_a_refused_request() {
    let config = || vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let nodes =
        [(); 2].map(|()| RedisServer::start(RedisOptions { config: config(), ..RedisOptions::default() }));
    let client = latchwork::connect(&format!("redis://{}", nodes[0].address())).await.expect("a node");
    // No node has any slot.
    is_refused(&client, "a", ErrorKind::Unreachable).await;

    for (node, slots) in nodes.iter().zip([["0", "8191"], ["8192", "16383"]]) {
        assert!(node.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]).is("OK"));
    }
    let port = nodes[1].port().to_string();
    assert!(nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port]).is("OK"));
    let moved = loop {
        // Some of these belong to the other node.
        let mut moved = None;
        for name in ["a", "b", "c", "d", "e", "f"] {
            match client.lock(name).try_acquire().await {
                Err(error) if error.kind() == ErrorKind::Unsupported => moved = Some(name),
                Ok(Some(guard)) => drop(guard.release().await),
                _ => {}
            }
        }
        match moved {
            Some(name) => break name,
            None => tokio::time::sleep(A_WHILE).await,
        }
    };
    is_refused(&client, moved, ErrorKind::Unsupported).await;
}

/// Each master gets no request or refuses it: together that is a refusal, and not an outage that may end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_reports_no_effect_for_a_refused_request() {
    let servers = [(); 3].map(|()| RedisServer::start(RedisOptions::default()));
    let at = servers.each_ref().map(|server| server.address().to_string()).join(",");
    let client = latchwork::connect(&format!("redlock://{at}?quarantine=off")).await.expect("they are there");
    let name = "a:latchwork1:q";
    is_refused(&client, name, ErrorKind::Invalid).await;
    let error = client.lock(name).try_acquire().await.expect_err("reserved").to_string();
    assert!(error.matches("is reserved").count() == 1 && !error.contains("masters"), "{error}");
    let filter = Filter::Name(LockName::new(name).expect("a good name"));
    did_nothing(&client.inspect(&filter).await.expect_err("reserved"), &[ErrorKind::Invalid]);
    is_not_let_in(&format!("redlock://nobody:wrong@{at}")).await;

    let config = vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let nodes = [(); 4]
        .map(|()| RedisServer::start(RedisOptions { config: config.clone(), ..RedisOptions::default() }));
    assert!(nodes[3].command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).is("OK"));
    for node in &nodes[..3] {
        assert!(node.command(&["CLUSTER", "MEET", "127.0.0.1", &nodes[3].port().to_string()]).is("OK"));
    }
    let at = nodes[..3].iter().map(|node| node.address().to_string()).collect::<Vec<_>>().join(",");
    let client = latchwork::connect(&format!("redlock://{at}?quarantine=off")).await.expect("they are there");
    // Until every node knows the owners of the slots.
    while client.lock("a").try_acquire().await.expect_err("none has slots").kind() != ErrorKind::Unsupported {
        tokio::time::sleep(A_WHILE).await;
    }
    is_refused(&client, "a", ErrorKind::Unsupported).await;
}

/// A read changes nothing, with or without an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inspection_without_an_answer_had_no_effect() {
    let server = RedisServer::start(RedisOptions::default());
    for options in ["", "?scheme=getset"] {
        let client =
            latchwork::connect(&format!("redis://{}{options}", server.address())).await.expect("there");
        server.pause();
        let filter = Filter::Name(LockName::new("a").expect("a good name"));
        let looked = client.inspect(&filter).await;
        server.resume();
        did_nothing(&looked.expect_err("no server answers"), &[ErrorKind::Unreachable]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_reports_no_effect_for_a_refused_request() {
    let options = EtcdOptions { grant: Some("app/".to_owned()), ..EtcdOptions::default() };
    let server = EtcdServer::start(options);
    let url = format!("etcd://app:s3cr%40t@{}?namespace=other/", server.address());
    let client = latchwork::connect(&url).await.expect("the user may log in");
    is_refused(&client, "a", ErrorKind::Denied).await;
    is_not_let_in(&format!("etcd://app:wrong@{}", server.address())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_reports_no_effect_for_a_refused_request() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::default());
    let at = server.members()[0].address();
    let owner = latchwork::connect(&format!("zookeeper://one:1@{at}"))
        .await
        .expect("the server accepts the connection");
    owner.lock("a").acquire().await.expect("free").release().await.expect("held");
    let other = latchwork::connect(&format!("zookeeper://two:2@{at}"))
        .await
        .expect("the server accepts the connection");
    is_refused(&other, "a", ErrorKind::Denied).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_reports_no_effect_for_a_refused_request() {
    let server = PostgresServer::start(PostgresOptions::default());
    let at = server.address();
    let owner = latchwork::connect(&server.url(at, "")).await.expect("the server accepts the connection");
    owner.lock("a").acquire().await.expect("free").release().await.expect("held");
    server.psql("CREATE ROLE weak LOGIN; GRANT SELECT ON latchwork_lock, latchwork_claim TO weak");
    let weak =
        latchwork::connect(&format!("postgres://weak@{at}/postgres")).await.expect("the user may log in");
    is_refused(&weak, "a", ErrorKind::Denied).await;
    for scheme in SQL {
        is_not_let_in(&format!("postgres://nobody@{at}/postgres{scheme}")).await;
    }
    let inserts = latchwork::connect(&server.url(at, "scheme=insert"))
        .await
        .expect("the server accepts the connection");
    inserts.lock("a").acquire().await.expect("free").release().await.expect("held");
    // The user may insert the row, but not draw its token: the whole transaction is rolled back.
    server.psql("GRANT ALL ON latchwork_mutex TO weak; GRANT SELECT ON latchwork_mutex_token TO weak");
    let weak = format!("postgres://weak@{at}/postgres?scheme=insert");
    is_refused(&latchwork::connect(&weak).await.expect("the user may log in"), "a", ErrorKind::Denied).await;
    inserts
        .lock("a")
        .try_acquire()
        .await
        .expect("answers")
        .expect("nothing is left")
        .release()
        .await
        .expect("held");
    server.psql("DROP TABLE latchwork_lock, latchwork_claim");
    is_refused(&owner, "a", ErrorKind::Corrupt).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_reports_no_effect_for_a_refused_request() {
    let server = MariadbServer::start(MariadbOptions::default());
    let at = server.address();
    let owner = latchwork::connect(&server.url(at, "")).await.expect("the server accepts the connection");
    owner.lock("a").acquire().await.expect("free").release().await.expect("held");
    let grants = |verb: &str, side: &str| {
        let grant = |table: &str| format!("{verb} ALL ON locks.latchwork_{table} {side} weak;");
        server.sql(&[grant("lock"), grant("claim")].concat())
    };
    server.sql("CREATE USER weak");
    grants("GRANT", "TO");
    let weak = latchwork::connect(&format!("mariadb://weak@{at}/locks")).await.expect("the user may log in");
    grants("REVOKE", "FROM");
    is_refused(&weak, "a", ErrorKind::Denied).await;
    for scheme in SQL {
        is_not_let_in(&format!("mariadb://app:wrong@{at}/locks{scheme}")).await;
    }
    let inserts = latchwork::connect(&server.url(at, "scheme=insert"))
        .await
        .expect("the server accepts the connection");
    inserts.lock("a").acquire().await.expect("free").release().await.expect("held");
    server
        .sql("GRANT ALL ON locks.latchwork_mutex TO weak; GRANT ALL ON locks.latchwork_mutex_token TO weak");
    let url = format!("mariadb://weak@{at}/locks?scheme=insert");
    let weak = latchwork::connect(&url).await.expect("the user may log in");
    server.sql("REVOKE INSERT, UPDATE ON locks.latchwork_mutex_token FROM weak");
    is_refused(&weak, "a", ErrorKind::Denied).await;
    inserts
        .lock("a")
        .try_acquire()
        .await
        .expect("answers")
        .expect("nothing is left")
        .release()
        .await
        .expect("held");
}
