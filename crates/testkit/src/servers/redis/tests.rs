use super::*;
use crate::shim::Clocks;

const SECOND: i64 = 1_000_000;

fn aof() -> RedisOptions<'static> {
    RedisOptions { aof: true, ..RedisOptions::default() }
}

fn set(server: &RedisServer) {
    assert!(server.command(&["SET", "key", "value"]).is("OK"));
}

#[test]
fn a_server_answers_on_its_port_and_on_its_socket() {
    let server = RedisServer::start(RedisOptions::default());
    set(&server);
    for connection in [Resp::tcp(server.address()), Resp::unix(&server.socket())] {
        assert_eq!(connection.unwrap().ask(&["GET", "key"]).unwrap().text(), "value");
    }
    assert_eq!(server.command(&["GET", "no such key"]), Reply::Nil);
    assert!(matches!(server.command(&["NONSENSE"]), Reply::Error(_)));
}

#[test]
fn persisted_data_survives_a_kill_and_other_data_does_not() {
    for (options, survives) in [(aof(), 1), (RedisOptions::default(), 0)] {
        let server = RedisServer::start(options);
        let port = server.port();
        set(&server);
        server.kill();
        assert!(Resp::tcp(server.address()).is_err(), "nobody listens");
        server.restart();
        assert_eq!(server.port(), port);
        assert_eq!(server.command(&["EXISTS", "key"]).integer(), survives);
        server.restart_empty();
        assert_eq!(server.command(&["EXISTS", "key"]).integer(), 0);
    }
}

#[test]
fn a_paused_server_acts_when_it_continues() {
    let server = RedisServer::start(RedisOptions::default());
    let mut impatient = Resp::tcp_within(server.address(), Duration::from_millis(50)).unwrap();
    server.pause();
    assert!(impatient.ask(&["SET", "key", "value"]).is_err(), "the server is stopped");
    server.resume();
    assert!(impatient.reply().unwrap().is("OK"));
    server.pause();
    server.kill();
}

#[test]
fn a_dropped_server_has_ended() {
    let server = RedisServer::start(RedisOptions::default());
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}

#[test]
fn a_command_is_answered_after_its_connection_was_closed() {
    let server = RedisServer::start(RedisOptions::default());
    server.command(&["PING"]);
    let mut rival = Resp::tcp(server.address()).unwrap();
    assert!(rival.ask(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap().integer() > 0);
    assert!(server.command(&["PING"]).is("PONG"));
}

#[test]
fn calls_are_counted_by_name_and_from_the_start() {
    let server = RedisServer::start(RedisOptions::default());
    assert_eq!(server.calls(&["get"]), 0);
    for _ in 0..3 {
        server.command(&["GET", "key"]);
    }
    set(&server);
    assert_eq!((server.calls(&["get"]), server.calls(&["set", "get"])), (3, 4));
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(server.calls(&["script|flush"]), 1);
    server.restart();
    assert_eq!(server.calls(&["get"]), 0);
}

#[test]
fn users_and_passwords_restrict_every_client_but_the_owner() {
    let server = RedisServer::start(RedisOptions {
        password: Some("secret".into()),
        acl: vec!["app on >app ~app:* +get +set".into()],
        ..RedisOptions::default()
    });
    let mut connection = Resp::tcp(server.address()).unwrap();
    assert!(matches!(connection.ask(&["PING"]).unwrap(), Reply::Error(text) if text.starts_with("NOAUTH")));
    assert!(connection.ask(&["AUTH", "app", "app"]).unwrap().is("OK"));
    assert!(connection.ask(&["SET", "app:key", "value"]).unwrap().is("OK"));
    assert!(
        matches!(connection.ask(&["GET", "key"]).unwrap(), Reply::Error(text) if text.starts_with("NOPERM"))
    );
    assert!(connection.ask(&["AUTH", "secret"]).unwrap().is("OK"));
    assert!(server.command(&["FLUSHALL"]).is("OK"));
    assert_eq!(connection.ask(&["EXISTS", "app:key"]).unwrap().integer(), 0);
}

#[test]
fn further_lines_of_the_configuration_take_effect() {
    let config = vec![("maxmemory".into(), "3mb".into()), ("maxmemory-policy".into(), "noeviction".into())];
    let server = RedisServer::start(RedisOptions { config, ..RedisOptions::default() });
    assert_eq!(server.command(&["CONFIG", "GET", "maxmemory"]).array()[1].text(), "3145728");
}

#[test]
fn the_clock_of_a_server_can_be_moved_and_stays_so_when_it_starts_again() {
    let micros = |server: &RedisServer| {
        let time = server.command(&["TIME"]);
        let [seconds, micros] = [0, 1].map(|at: usize| time.array()[at].text().parse::<i64>().unwrap());
        seconds * SECOND + micros
    };
    let clocks = Clocks::new();
    let server = RedisServer::start(RedisOptions { clocks: Some(&clocks), ..RedisOptions::default() });
    let before = micros(&server);
    clocks.move_wall(3_600_000);
    let moved = micros(&server) - before;
    assert!((3_600 * SECOND..3_700 * SECOND).contains(&moved), "{moved}");
    server.restart();
    assert!(micros(&server) - before >= 3_600 * SECOND);
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let config = vec![("no-such-setting".into(), "1".into())];
    let starting = || RedisServer::start(RedisOptions { config, ..RedisOptions::default() });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(starting)).err().expect("it cannot");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("no-such-setting"), "{message}");
}

#[test]
fn a_port_that_is_taken_is_distinguished_from_other_failures() {
    let server = RedisServer::prepare(&RedisOptions::default());
    let taken = std::net::TcpListener::bind(server.address()).unwrap();
    assert!(server.launch().is_err());
    drop(taken);
    assert!(server.launch().is_ok());
}
