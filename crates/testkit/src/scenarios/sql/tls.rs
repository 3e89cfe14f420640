//! Servers and clients that do not trust each other, and their errors.

use latchwork::{Effect, ErrorKind, connect};

/// Checks that the connection is refused for a stated reason, and that the error does not contain `secret`.
///
/// # Panics
/// If it succeeds, or fails for another reason.
pub async fn is_refused(url: &str, kind: ErrorKind, reasons: &[&str], secret: &str) {
    let error = connect(url).await.expect_err("the connection must be refused");
    println!("{error}");
    assert_eq!((error.kind(), error.effect()), (kind, Effect::None), "{error}");
    assert!(reasons.iter().all(|reason| error.to_string().contains(reason)), "{reasons:?} in {error}");
    let source = std::error::Error::source(&error).map(|source| format!("{source:?}")).unwrap_or_default();
    assert!(!format!("{error} {error:?} {source}").contains(secret), "{error:?}");
}
