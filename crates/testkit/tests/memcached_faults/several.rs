//! Several servers, each with its share of the locks.

use latchwork::{Client, ErrorKind, Loss, Promise};
use testkit::harness::connect;
use testkit::servers::{MemcachedOptions, MemcachedServer};
use testkit::workload::contenders::TTL;

use super::harness::{LONG, SOON};

fn servers() -> [MemcachedServer; 3] {
    [(); 3].map(|()| MemcachedServer::start(MemcachedOptions::default()))
}

fn url(servers: &[MemcachedServer]) -> String {
    let places: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    format!("memcached://{}", places.join(","))
}

/// Names of locks, one for each of the servers.
async fn one_for_each(servers: &[MemcachedServer], client: &Client) -> Vec<String> {
    let mut names = vec![None; servers.len()];
    for number in 0.. {
        let name = format!("lock/{number}");
        let guard = client.lock(&name).ttl(LONG).try_acquire().await.expect("an answer").expect("free");
        let at: Vec<_> = (0..servers.len()).filter(|server| servers[*server].item(&name).is_some()).collect();
        assert_eq!(at.len(), 1, "a lock is on one server");
        names[at[0]].get_or_insert(name);
        guard.release().await.expect("held");
        if names.iter().all(Option::is_some) {
            break;
        }
    }
    names.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_or_is_down_costs_no_client_the_locks_of_other_servers() {
    let servers = servers();
    let (client, rival) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    let names = one_for_each(&servers, &client).await;
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(name).ttl(TTL).acquire().await.expect("free"));
    }
    servers[0].pause();
    servers[1].kill();
    for lost in &guards[..2] {
        let loss = tokio::time::timeout(SOON, lost.lost()).await.expect("told");
        assert_eq!(loss, Loss::Unreachable);
    }
    tokio::time::sleep(TTL).await;
    assert!(guards[2].is_certain(), "renewed beside two that cannot be");
    let error = rival.lock(&names[1]).try_acquire().await.expect_err("its server is gone");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains(&servers[1].address().to_string()), "{error}");
    servers[0].resume();
    servers[1].restart();
    // A client can be created while some of the servers are down, and not while all are.
    servers[1].kill();
    let late = connect(&url(&servers)).await;
    assert!(late.lock(&names[2]).try_acquire().await.expect("an answer").is_none(), "held");
    guards.pop().expect("the third").release().await.expect("held");
    servers.iter().for_each(MemcachedServer::kill);
    let error = latchwork::connect(&url(&servers)).await.expect_err("no server answers");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

/// The documented effect of a change of servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_different_server_lists_do_not_exclude_each_other_as_guarantees_say() {
    let servers = servers();
    let (client, other) = (connect(&url(&servers)).await, connect(&url(&servers[..2])).await);
    assert_eq!(client.guarantees().faults.failover, Promise::Breaks);
    let names = one_for_each(&servers, &client).await;
    let held = client.lock(&names[2]).ttl(LONG).acquire().await.expect("free");
    let beside = other.lock(&names[2]).ttl(LONG).try_acquire().await.expect("an answer").expect("elsewhere");
    assert!(held.is_certain() && beside.is_certain(), "the case that is not guaranteed");
    // The same servers in another order are the same list.
    let places: Vec<_> = servers.iter().rev().map(|server| server.address().to_string()).collect();
    let backwards = connect(&format!("memcached://{}", places.join(","))).await;
    assert!(backwards.lock(&names[2]).try_acquire().await.expect("an answer").is_none());
    held.release().await.expect("held");
    beside.release().await.expect("held");
}
