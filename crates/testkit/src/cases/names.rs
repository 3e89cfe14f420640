//! Names are data, and different names are different locks.

use std::sync::Arc;
use std::time::Duration;

use latchwork::{ErrorKind, Guard};

use super::support::hold;
use crate::Fixture;

async fn all_held_at_once<F: Fixture>(fixture: &F, names: &[&str]) -> Vec<Guard> {
    let client = fixture.client().await;
    let mut guards = Vec::new();
    for name in names {
        let guard = client.lock(name).try_acquire().await.expect("a good name");
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} collides with one of {names:?}")));
    }
    for name in names {
        let other = fixture.client().await.lock(name).try_acquire().await.expect("a good name");
        assert!(other.is_none(), "{name:?} is held");
    }
    guards
}

pub(super) async fn names_that_nest_are_unrelated_locks<F: Fixture>(fixture: Arc<F>) {
    let guards = all_held_at_once(&*fixture, &["a", "a/b", "a/b-lock-0000000000", "a/", "/a", "a//b"]).await;
    for guard in guards {
        guard.release().await.expect("held");
    }
}

pub(super) async fn names_are_compared_bytewise<F: Fixture>(fixture: Arc<F>) {
    let names = ["job", "Job", "job ", " job", "jöb", "jo\u{308}b", "job\u{200b}", "jo%62", "ß", "ss"];
    drop(all_held_at_once(&*fixture, &names).await);
}

pub(super) async fn awkward_names_are_data<F: Fixture>(fixture: Arc<F>) {
    let long = "n".repeat(512);
    let names = [
        "../../etc/passwd",
        "'; DROP TABLE lock; --",
        "\"quoted\"",
        "back\\slash",
        "{tag}name",
        "}{",
        "*?[a-z]",
        "%_",
        "🔒",
        "--help",
        "-",
        ".",
        "..",
        "$(reboot)",
        "`reboot`",
        "a b\u{a0}c",
        &long,
    ];
    drop(all_held_at_once(&*fixture, &names).await);
}

pub(super) async fn an_invalid_name_or_ttl_is_refused_with_the_limit<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    for bad in ["", "a\nb", "a\0b", "tab\t", "\u{7f}", &"n".repeat(513)] {
        let error = client.lock(bad).acquire().await.expect_err("a bad name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    for bad in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(366 * 86_400), Duration::MAX] {
        let error = client.lock("ttl").ttl(bad).acquire().await.expect_err("a bad ttl");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let limit = format!("{:?}", F::guarantees().max_ttl);
        assert!(error.to_string().contains(&limit), "{error} does not name {limit}");
    }
    hold(&client, "ttl").await.release().await.expect("held");
}
