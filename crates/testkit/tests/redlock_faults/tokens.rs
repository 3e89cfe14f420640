//! Masters whose counters differ, and several addresses of one master.

use latchwork::ErrorKind;

use super::harness::{LOCK, LONG, RedlockHarness, take};

const OPTIONS: &str = "quarantine=off&node-timeout=200ms";

/// Some counters are far ahead of every clock: the masters are raised to the greatest, and agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_differ_are_raised_to_the_greatest() {
    let harness = RedlockHarness::new();
    let client = harness.client(OPTIONS).await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    let fence = format!("{{{LOCK}}}:latchwork1:f");
    // So that every majority has one of them.
    let ahead = [(1, 4_000_000_000_000_000_u64), (3, 4_000_000_000_000_700), (4, 4_000_000_000_000_300)];
    for (master, counter) in ahead {
        assert!(harness.masters[master].command(&["SET", &fence, &format!("{counter}")]).is("OK"));
    }
    let mut last = 0;
    for _ in 0..5 {
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        let token = guard.token().expect("certain").engine_token();
        assert!(token > 4_000_000_000_000_000 && token > last, "{token} after {last}");
        last = token;
        guard.release().await.expect("held");
    }
    harness.judge(&[client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_named_twice_is_refused() {
    let harness = RedlockHarness::new();
    let [first, second] = [0, 1].map(|at: usize| harness.masters[at].address());
    let url = format!("redlock://{first},{second},{}?{OPTIONS}", harness.proxies[0].address());
    let error = latchwork::connect(&url).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("are one server"), "{error}");
}
