//! Keys of other programs: how `latch` describes them, and that it does not touch them.

use std::process::Command;

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{Ended, TestDir, end};

struct Fixture {
    dir: TestDir,
    server: RedisServer,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: TestDir::new(), server: RedisServer::start(RedisOptions::default()) }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.server.address())
    }

    fn latch(&self, arguments: &[&str]) -> Ended {
        end(self.dir.latch(arguments.iter().copied()).env("LATCH_URL", self.url()))
    }

    fn redis(&self, words: &[&str]) -> String {
        format!("{:?}", self.server.command(words))
    }

    /// Runs the command in the hint.
    fn run_hint(&self, refused: &Ended) -> Ended {
        let hint = refused.err.lines().find_map(|line| line.strip_prefix("hint: ")).expect("there is a hint");
        let folder = std::path::Path::new(env!("CARGO_BIN_EXE_latch")).parent().expect("a folder");
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
        end(Command::new("bash").args(["-c", hint]).env("PATH", path).env("LATCH_URL", self.url()))
    }
}

/// A cache entry has an expiry, and the lock of redis-py has none.
#[test]
fn a_key_of_another_program_is_described_and_kept() {
    let fixture = Fixture::new();
    for (value, expiry) in [("a cached\u{1b}[2J page that is longer than that", "PX"), ("hello", "")] {
        let mut set = vec!["SET", "x", value];
        set.extend(if expiry.is_empty() { &[][..] } else { &["PX", "60000"] });
        fixture.redis(&set);
        let before = fixture.redis(&["GET", "x"]);
        for (arguments, code) in [
            (&["revoke", "x", "--reason", "a test"][..], 64),
            (&["revoke", "x", "--now", "--reason", "a test"], 64),
            (&["release", "x", "--force"], 64),
            (&["release", "x", "--force", "--now"], 64),
            (&["release", "x"], 64),
        ] {
            let ended = fixture.latch(arguments);
            assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{arguments:?} {ended:?}");
            assert_eq!(fixture.redis(&["GET", "x"]), before, "{arguments:?}");
            assert_eq!(fixture.redis(&["PTTL", "x"]) == "Integer(-1)", expiry.is_empty(), "{arguments:?}");
        }
        let refused = fixture.latch(&["revoke", "x", "--now", "--reason", "a test"]);
        let (length, lease) = match expiry {
            "" => ("string of 5 bytes, \"hello\"", "it has no lease"),
            _ => (
                r#"string of 42 bytes that begins "a cached\x1b[2J page that is longer""#,
                "its lease ends in ",
            ),
        };
        for part in
            [length, lease, "not Latchwork's", "hint: latch revoke --now --foreign --reason='a test' x"]
        {
            assert!(refused.err.contains(part), "{part}: {refused:?}");
        }
        let gentle = fixture.latch(&["revoke", "x", "--reason", "a test"]);
        assert!(gentle.err.contains(lease) && !gentle.err.contains("hint"), "{gentle:?}");
        let failed = fixture.latch(&["release", "x"]);
        assert!(failed.err.contains(lease) && !failed.err.contains("hint"), "{failed:?}");
        let failed = fixture.latch(&["release", "x", "--now"]);
        assert!(failed.err.contains(lease) && failed.err.contains("--now --foreign"), "{failed:?}");
        let taken = fixture.run_hint(&refused);
        assert_eq!(taken.code, Some(0));
        // Its holder never had a token that a store could compare.
        assert!(taken.err.contains("has no token that a store could check"), "{taken:?}");
        assert_eq!(fixture.redis(&["EXISTS", "x"]), "Integer(0)");
    }
}

#[test]
fn a_key_that_is_no_string_is_never_removed() {
    let fixture = Fixture::new();
    for make in
        [&["RPUSH", "x", "element"][..], &["HSET", "x", "field", "value"], &["ZADD", "x", "1", "member"]]
    {
        for scheme in ["set", "setnx", "getset"] {
            fixture.redis(make);
            fixture.redis(&["PEXPIRE", "x", "60000"]);
            let url = format!("{}?scheme={scheme}", fixture.url());
            let latch =
                |arguments: &[&str]| end(fixture.dir.latch(arguments.iter().copied()).env("LATCH_URL", &url));
            for flags in [&[][..], &["--now"], &["--now", "--foreign"]] {
                let ended = latch(&[&["revoke", "--quiet", "x", "--reason", "a test"][..], flags].concat());
                assert_eq!(ended.code, Some(64), "{scheme}: {ended:?}");
                assert!(ended.err.contains("never taken away") && !ended.err.contains("hint"), "{ended:?}");
                assert!(ended.err.contains("it expires in "), "{ended:?}");
                assert_eq!(fixture.redis(&["EXISTS", "x"]), "Integer(1)");
            }
            let status = latch(&["status", "x"]);
            assert_eq!(status.code, Some(0), "{scheme}: {status:?}");
            assert!(
                status.out.contains("not latchwork") && status.out.contains("59s"),
                "{scheme}: {status:?}"
            );
            let failed = latch(&["release", "x"]);
            assert!(failed.err.contains("never taken away") && !failed.err.contains("hint"), "{failed:?}");
            fixture.redis(&["DEL", "x"]);
        }
    }
}

#[test]
fn the_type_of_a_foreign_holder_is_in_the_document() {
    let fixture = Fixture::new();
    fixture.redis(&["SET", "x", "secret"]);
    let ended = fixture.latch(&["status", "x", "--json"]);
    let state: serde_json::Value = serde_json::from_str(&ended.out).expect("a document");
    assert_eq!(state["holders"][0]["foreign"], serde_json::json!({ "type": "string", "length": 6 }));
    assert!(!ended.out.contains("secret"), "the value may be all that is needed to release it");
    let text = fixture.latch(&["status", "x"]).out;
    assert!(text.contains("none: held until its holder releases it"), "{text}");
}
