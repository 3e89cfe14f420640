//! `latch` with locks in a PostgreSQL database: the differences to a database file.

#[path = "../run/support.rs"]
#[allow(dead_code, reason = "shared with the tests of latch run, which use all of it")]
mod support;

use std::process::Command;

use serde_json::Value;
use testkit::servers::{PostgresOptions, PostgresServer};

use crate::support::{TestDir, end};

#[test]
fn the_sql_that_grants_the_rights_is_printed_as_lines_to_paste_and_is_in_the_json() {
    let (dir, server) = (TestDir::new(), PostgresServer::start(PostgresOptions::default()));
    server.psql("CREATE USER \"the app\"; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let url = format!("postgres://the%20app@{}/postgres?table=jobs", server.address());
    let latch = |more: &[&str]| {
        let run = ["--url", &url, "run", "nightly", "--", "echo", "locked"];
        end(&mut dir.latch(more.iter().copied().chain(run)))
    };
    let refused = latch(&[]);
    assert_eq!(refused.code, Some(69), "{refused:?}");
    let (says, sql) = refused.err.split_once('\n').expect("lines");
    assert!(says.starts_with("latch: postgres at ") && says.ends_with("run:"), "{says}");
    assert!(sql.lines().count() > 3 && !refused.err.contains("\\n"), "{}", refused.err);
    assert!(
        sql.contains("GRANT SELECT, INSERT, UPDATE, DELETE ON jobs_lock, jobs_claim TO \"the app\";"),
        "{sql}"
    );

    let in_json = latch(&["--json"]);
    let event: Value = serde_json::from_str(&in_json.err).expect("one line of JSON");
    let message = event["message"].as_str().expect("a text");
    assert_eq!((&event["kind"], in_json.code), (&Value::from("denied"), Some(69)), "{event}");
    assert!(message.ends_with(sql.trim_end()), "{message}");

    server.psql(sql);
    let locked = latch(&[]);
    assert_eq!((locked.code, locked.out.as_str()), (Some(0), "locked\n"), "{locked:?}");
}

/// Both spellings of the scheme name one engine, and so one lock.
#[test]
fn a_lock_that_would_wait_for_itself_is_refused_also_by_the_other_spelling_of_the_url() {
    let (dir, server) = (TestDir::new(), PostgresServer::start(PostgresOptions::default()));
    let url = |scheme: &str| format!("{scheme}://owner@{}/postgres", server.address());
    let latch = env!("CARGO_BIN_EXE_latch");
    for (outer, inner) in [("postgres", "postgresql"), ("postgresql", "postgres")] {
        let mut both = Command::new("timeout");
        both.args(["20", latch, "--url", &url(outer), "run", "a", "--"]);
        both.args([latch, "--url", &url(inner), "run", "a", "--", "echo", "ran"]);
        let ended = end(both.current_dir(dir.path("")).env_remove("LATCH_URL_FILE"));
        assert_eq!((ended.code, ended.out.as_str()), (Some(64), ""), "{outer} {inner}: {ended:?}");
        assert!(ended.err.contains("would wait for the other to end"), "{ended:?}");
    }
}
