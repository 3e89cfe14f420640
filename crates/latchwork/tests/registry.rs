//! From a URL to a client, or to an error that says what to change.

use latchwork::{Error, ErrorKind, connect};

async fn refused(url: &str) -> Error {
    connect(url).await.expect_err("a bad URL")
}

#[tokio::test]
async fn an_unknown_scheme_is_refused_with_the_closest_known_one() {
    let error = refused("memroy:").await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("did you mean \"memory:\"?"), "{error}");
    let error = refused("carrier-pigeon://loft").await;
    assert!(error.to_string().contains("known are memory"), "{error}");
}

#[tokio::test]
async fn an_unknown_option_or_part_is_refused() {
    for url in ["memory:?ttl=3", "memory:shared", "memory://host"] {
        assert_eq!(refused(url).await.kind(), ErrorKind::Invalid, "{url}");
    }
}

#[tokio::test]
async fn a_password_is_in_no_error_and_in_no_debug() {
    for url in [
        "memory://u:canary@h",
        "nosuch://u:canary@h",
        "memory:?password=canary",
        "canary",
        "sqlite://u:canary@h/p?k=canary",
    ] {
        let error = refused(url).await;
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn an_engine_that_is_not_compiled_in_names_its_feature() {
    let error = refused("sqlite:").await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("feature \"sqlite\""), "{error}");
}
