//! The scripts behave as the model says.

use models::redlock::master::{Answer, Attempt, Master, Request};
use testkit::seed::Seed;
use testkit::servers::{RedisOptions, RedisServer, Reply};

const KEY: &str = "lock";
const FENCE: &str = "fence";
/// Tokens of the model are small; these are in the past, where a master accepts every proposal.
const FIRST_TOKEN: u64 = 1_700_000_000_000_000;
const TTL: &str = "600000";

#[allow(dead_code, reason = "the engine has more scripts")]
#[path = "../../../latchwork/src/engines/redis/lua/mod.rs"]
mod lua;

/// A script as the engine sends it.
pub(crate) fn source(parts: &[&str]) -> String {
    lua::compose(parts, 0, 10_000)
}

pub(crate) use self::lua::REDLOCK_RELEASE;

fn token(small: u8) -> String {
    (FIRST_TOKEN + u64::from(small)).to_string()
}

/// The value of the key, and of the fence behind the token.
fn value(attempt: Attempt) -> [String; 2] {
    let id = format!("{:032x}", attempt.client);
    [format!("{id}-{}", attempt.number), format!("{id}{:016x}x\n", 0)]
}

fn run(server: &RedisServer, attempt: Attempt, request: Request) -> Reply {
    let [value, member] = value(attempt);
    let (script, args) = match request {
        Request::Claim(proposed) => {
            (lua::REDLOCK_CLAIM, vec![value, member, TTL.to_owned(), token(proposed)])
        }
        Request::Raise(to) => (lua::REDLOCK_RAISE, vec![value, member, token(to)]),
        Request::Heal(of) => (lua::REDLOCK_HEAL, vec![value, member, token(of), TTL.to_owned()]),
        Request::Renew => (lua::RENEW, vec![value, TTL.to_owned()]),
        Request::Release => (REDLOCK_RELEASE, vec![value, String::new()]),
    };
    let script = source(script);
    let mut words = vec!["EVAL", &script, "2", KEY, FENCE];
    words.extend(args.iter().map(String::as_str));
    server.command(&words)
}

fn read(request: Request, reply: &Reply) -> Answer {
    match (request, reply) {
        (Request::Claim(_), Reply::Array(_)) => Answer::NotOurs,
        (Request::Claim(_) | Request::Raise(_), Reply::Bulk(_)) => {
            let token: u64 = reply.text().parse().expect("a token");
            Answer::Ours((token - FIRST_TOKEN) as u8)
        }
        (Request::Renew, Reply::Array(answers)) => match answers[0] {
            Reply::Integer(1) => Answer::Done,
            _ => Answer::NotOurs,
        },
        (_, Reply::Integer(1)) => Answer::Done,
        (_, Reply::Integer(0)) => Answer::NotOurs,
        (request, reply) => panic!("{request:?} was answered {reply:?}"),
    }
}

#[test]
fn a_real_master_does_what_the_model_of_one_does() {
    let server = RedisServer::start(RedisOptions::default());
    let mut seed = Seed::new(1);
    let (mut granted, mut refused) = (0, 0);
    for round in 0..60 {
        assert!(server.command(&["SET", FENCE, &token(0)]).is("OK"));
        server.command(&["DEL", KEY]);
        let (mut master, mut attempts) = (Master::default(), [0; 2]);
        for step in 0..40 {
            let client = seed.below(2) as usize;
            let small = seed.below(100) as u8;
            let request = match seed.below(6) {
                0 | 1 => Request::Claim(small),
                2 => Request::Raise(small),
                3 => Request::Renew,
                4 => Request::Heal(small),
                _ => Request::Release,
            };
            // Every claim is a new attempt. The others concern the last one that got the key, or are late.
            let number = match request {
                Request::Claim(_) => attempts[client] + 1,
                _ => attempts[client] - u8::from(attempts[client] > 0 && seed.percent(10)),
            };
            let attempt = Attempt { client: client as u8, number };
            let said = read(request, &run(&server, attempt, request));
            let expected = master.carry_out(attempt, request, 1);
            assert_eq!(said, expected, "round {round}, step {step}: {request:?}");
            *if said == Answer::NotOurs { &mut refused } else { &mut granted } += 1;
            if matches!((request, said), (Request::Claim(_), Answer::Ours(_))) {
                attempts[client] = number;
            }
            let key = server.command(&["GET", KEY]);
            let holder = master.key.map(|(holder, _)| value(holder)[0].clone());
            assert_eq!((key != Reply::Nil).then(|| key.text()), holder, "{request:?}");
            assert_eq!(server.command(&["GET", FENCE]).text()[..16], token(master.fence), "{request:?}");
        }
    }
    assert!(granted > 300 && refused > 300, "{granted} granted, {refused} refused: too unbalanced");
}
