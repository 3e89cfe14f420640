//! Every switch, against a real server.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};

use latchwork::clock::Clock;

use super::*;
use crate::servers::{RedisOptions, RedisServer, Reply, Resp};

const SHORT: Duration = Duration::from_millis(50);
/// Longer than a machine stalls: five such delays cannot be mistaken for one.
const DELAY: Duration = Duration::from_millis(600);

fn harness() -> (RedisServer, Proxy) {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::to(server.address());
    (server, proxy)
}

fn client(proxy: &Proxy) -> Resp {
    Resp::tcp(proxy.address()).expect("the proxy listens")
}

/// A client that has received a reply, so that its connection is fully established.
fn greeted(proxy: &Proxy) -> Resp {
    let mut client = client(proxy);
    assert!(client.ask(&["PING"]).expect("nothing is switched").is("PONG"));
    client
}

fn is_closed(answer: std::io::Result<Reply>) -> bool {
    let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    answer.is_err_and(|error| closed.contains(&error.kind()))
}

fn wait(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let waited = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), future).await });
    waited.expect("the condition becomes true");
}

/// Waits until every client that disconnected from the proxy has disconnected from the server.
fn until_disconnected(server: &RedisServer) {
    let begun = Clock::boottime().now();
    while server.command(&["CLIENT", "LIST", "TYPE", "normal"]).text().contains(" laddr=127.0.0.1:") {
        assert!(Clock::boottime().now().since(begun) < Duration::from_secs(10), "a connection is left");
        std::thread::yield_now();
    }
}

#[test]
fn requests_of_any_size_are_forwarded() {
    let (server, proxy) = harness();
    let mut client = greeted(&proxy);
    let large = "x".repeat(20_000_000);
    assert!(client.ask(&["SET", "key", &large]).unwrap().is("OK"));
    assert_eq!(server.command(&["STRLEN", "key"]).integer(), 20_000_000);
    assert_eq!(client.ask(&["GET", "key"]).unwrap().text(), large);
}

#[test]
fn a_unix_socket_works_as_well() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::to_socket(&server.socket());
    let mut client = Resp::unix(&proxy.socket()).unwrap();
    assert_eq!(client.ask(&["INCR", "key"]).unwrap().integer(), 1);
    proxy.refuse(true);
    assert!(is_closed(client.ask(&["INCR", "key"])));
    assert!(is_closed(Resp::unix(&proxy.socket()).unwrap().ask(&["INCR", "key"])));
    assert_eq!(server.command(&["GET", "key"]).text(), "1");
}

#[test]
fn a_delay_holds_back_each_request_for_itself_and_keeps_their_order() {
    let (_server, proxy) = harness();
    let mut client = greeted(&proxy);
    proxy.delay(DELAY);
    let begun = Clock::boottime().now();
    for number in 1..=5 {
        client.send(&["INCR", "key"]).unwrap();
        wait(proxy.board.until(|switches| switches.requests == 1 + number));
    }
    let answers = (1..=5).map(|_| client.reply().unwrap().integer()).collect::<Vec<_>>();
    let took = Clock::boottime().now().since(begun);
    assert_eq!(answers, [1, 2, 3, 4, 5]);
    assert!(took >= DELAY && took < DELAY * 5, "{took:?}");
}

#[test]
fn a_delay_of_zero_sends_on_what_was_held_back() {
    let (server, proxy) = harness();
    let mut client = greeted(&proxy);
    proxy.delay(Duration::from_secs(3_600));
    client.send(&["SET", "key", "value"]).unwrap();
    wait(proxy.board.until(|switches| switches.requests == 2));
    assert_eq!(server.command(&["EXISTS", "key"]).integer(), 0);
    proxy.delay(Duration::ZERO);
    assert!(client.reply().unwrap().is("OK"));
}

#[test]
fn a_cut_closes_open_connections_and_no_later_one() {
    let (server, proxy) = harness();
    let (mut one, mut two) = (greeted(&proxy), greeted(&proxy));
    proxy.cut();
    assert!(is_closed(one.ask(&["SET", "key", "value"])));
    assert!(is_closed(two.reply()));
    assert_eq!(server.command(&["EXISTS", "key"]).integer(), 0);
    until_disconnected(&server);
    drop(greeted(&proxy));
}

#[test]
fn a_cut_loses_what_was_held_back() {
    let (server, proxy) = harness();
    let mut client = greeted(&proxy);
    proxy.delay(Duration::from_secs(3_600));
    client.send(&["SET", "key", "value"]).unwrap();
    wait(proxy.board.until(|switches| switches.requests == 2));
    proxy.cut();
    proxy.delay(Duration::ZERO);
    assert!(is_closed(client.reply()));
    assert_eq!(server.command(&["EXISTS", "key"]).integer(), 0);
}

#[test]
fn new_and_existing_connections_are_refused_until_it_ends() {
    let (_server, proxy) = harness();
    let mut before = greeted(&proxy);
    proxy.refuse(true);
    assert!(is_closed(before.ask(&["PING"])));
    assert!(is_closed(client(&proxy).ask(&["PING"])));
    proxy.refuse(false);
    drop(greeted(&proxy));
}

#[test]
fn a_client_that_was_cut_off_counts_until_it_has_noticed() {
    let (_server, proxy) = harness();
    let mut client = greeted(&proxy);
    proxy.refuse(true);
    assert!(is_closed(client.reply()));
    assert_eq!(proxy.connections(), 1);
    drop(client);
    wait(proxy.until_closed());
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn a_black_hole_holds_requests_back_until_it_ends() {
    let (server, proxy) = harness();
    let mut client = Resp::tcp_within(proxy.address(), SHORT).unwrap();
    client.ask(&["PING"]).unwrap();
    proxy.black_hole(true);
    assert_eq!(client.ask(&["INCR", "key"]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(server.command(&["EXISTS", "key"]).integer(), 0);
    let mut late = Resp::tcp_within(proxy.address(), SHORT).unwrap();
    assert_eq!(late.ask(&["PING"]).unwrap_err().kind(), ErrorKind::WouldBlock);
    proxy.black_hole(false);
    assert_eq!(client.reply().unwrap().integer(), 1);
    assert!(late.reply().unwrap().is("PONG"));
}

#[test]
fn a_black_hole_holds_back_replies_and_the_end_of_a_connection_too() {
    let (server, proxy) = harness();
    let mut client = Resp::tcp_within(proxy.address(), SHORT).unwrap();
    client.ask(&["PING"]).unwrap();
    client.send(&["BLPOP", "list", "0"]).unwrap();
    while server.command(&["INFO", "clients"]).text().contains("blocked_clients:0") {
        std::thread::yield_now();
    }
    proxy.black_hole(true);
    assert_eq!(server.command(&["RPUSH", "list", "item"]).integer(), 1);
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::WouldBlock);
    server.kill();
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::WouldBlock);
    proxy.black_hole(false);
    assert_eq!(client.reply().unwrap().array()[1].text(), "item");
    assert!(is_closed(client.reply()));
}

#[test]
fn a_forgotten_connection_stays_open_and_dead_and_a_new_one_works() {
    let (server, proxy) = harness();
    let mut forgotten = Resp::tcp_within(proxy.address(), SHORT).unwrap();
    forgotten.ask(&["PING"]).unwrap();
    proxy.forget_connections();
    assert_eq!(forgotten.ask(&["INCR", "key"]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(greeted(&proxy).ask(&["INCR", "key"]).unwrap().integer(), 1);
    proxy.black_hole(false);
    assert_eq!(forgotten.reply().unwrap_err().kind(), ErrorKind::WouldBlock, "for ever");
    assert_eq!(server.command(&["GET", "key"]).text(), "1");
    proxy.cut();
    assert!(is_closed(forgotten.reply()), "a cut reaches it");
}

#[test]
fn a_lost_reply_belongs_to_a_request_that_acted() {
    let (server, proxy) = harness();
    let (mut one, mut two) = (greeted(&proxy), greeted(&proxy));
    proxy.lose_replies(2);
    assert!(is_closed(one.ask(&["INCR", "key"])));
    assert!(is_closed(two.ask(&["INCR", "key"])));
    assert_eq!(server.command(&["GET", "key"]).text(), "2");
    wait(proxy.until_lost_replies(2));
    proxy.lose_next_reply();
    assert!(is_closed(client(&proxy).ask(&["INCR", "key"])));
    assert_eq!((greeted(&proxy).ask(&["GET", "key"]).unwrap().text(), proxy.lost_replies()), ("3".into(), 3));
}

#[test]
fn a_lost_request_never_acts() {
    let (server, proxy) = harness();
    let (mut one, mut two) = (greeted(&proxy), greeted(&proxy));
    proxy.cut_before_next_request();
    assert!(is_closed(one.ask(&["INCR", "key"])));
    assert_eq!(server.command(&["EXISTS", "key"]).integer(), 0);
    assert_eq!(two.ask(&["INCR", "key"]).unwrap().integer(), 1, "one request was to be lost");
}

#[test]
fn a_reply_is_lost_to_the_request_it_was_ordered_for_and_to_no_other() {
    let (server, proxy) = harness();
    let (mut one, mut two) = (greeted(&proxy), greeted(&proxy));
    proxy.lose_reply_to(b"INCR");
    assert!(one.ask(&["SET", "key", "7"]).unwrap().is("OK"));
    assert!(is_closed(two.ask(&["INCR", "key"])));
    assert_eq!(one.ask(&["INCR", "key"]).unwrap().integer(), 9, "one reply was to be lost");
    assert_eq!(proxy.lost_replies(), 1);
    proxy.lose_reply_to(b"SET");
    proxy.lose_next_reply();
    assert!(is_closed(one.ask(&["SET", "key", "9"])));
    assert!(is_closed(client(&proxy).ask(&["PING"])), "the order for any reply stands beside that for one");
    assert_eq!(server.command(&["GET", "key"]).text(), "9");
}

#[test]
fn a_dead_server_is_noticed_and_a_restarted_one_is_found() {
    let (server, proxy) = harness();
    let mut before = greeted(&proxy);
    server.kill();
    assert!(is_closed(before.reply()));
    assert!(is_closed(client(&proxy).ask(&["PING"])));
    server.restart();
    drop(greeted(&proxy));
}

#[test]
fn connections_and_requests_are_counted() {
    let (server, proxy) = harness();
    let (mut one, two) = (greeted(&proxy), greeted(&proxy));
    one.ask(&["PING"]).unwrap();
    assert_eq!((proxy.connections(), proxy.requests()), (2, 3));
    drop((one, two));
    wait(proxy.until_closed());
    until_disconnected(&server);
}

#[test]
fn a_junction_delays_each_client_separately_and_refuses_a_stranger() {
    let server = RedisServer::start(RedisOptions::default());
    let came = AtomicUsize::new(0);
    // The first client is on the first lane, the next one on the second; there is no third.
    let lane = move |_| Some(came.fetch_add(1, Ordering::Relaxed)).filter(|lane| *lane < 2);
    let junction = Junction::to(server.address(), 2, lane);
    let connect = || Resp::tcp_within(junction.address(), DELAY).expect("it listens");
    let [mut one, mut two] = [(); 2].map(|()| {
        let mut client = connect();
        assert!(client.ask(&["PING"]).unwrap().is("PONG"));
        client
    });
    assert!(is_closed(connect().ask(&["PING"])), "the effect is unknown");
    junction.black_hole(0, true);
    assert!(one.ask(&["INCR", "key"]).is_err(), "delayed");
    assert!(two.ask(&["SET", "key", "10"]).unwrap().is("OK"));
    junction.black_hole(0, false);
    assert_eq!(one.reply().unwrap().integer(), 11, "the request took effect when it got through");
}

#[test]
fn a_silenced_connection_stays_silent_until_it_is_cut() {
    let (server, proxy) = harness();
    let mut client = greeted(&proxy);
    proxy.silence_after(b"INCR");
    let asking = std::thread::spawn(move || client.ask(&["INCR", "count"]));
    wait(proxy.until_lost_replies(1));
    assert_eq!(server.command(&["GET", "count"]).text(), "1", "the server acted");
    assert!(!asking.is_finished());
    proxy.cut();
    assert!(is_closed(asking.join().expect("no panic")));
    greeted(&proxy);
}
