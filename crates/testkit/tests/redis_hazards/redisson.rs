//! Redisson's `RLock`: a hash under the lock's name, with a field that counts how often its holder entered.

use super::harness::{HazardHarness, LOCK, LONG, take};
use testkit::servers::Reply;

/// The script that acquires the lock: the key, its ttl in milliseconds and its own id.
const TAKE: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
                    redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil end; \
                    return redis.call('pttl', KEYS[1])";

#[tokio::test]
async fn redisson_excludes_ours_and_gets_an_error_while_our_client_holds() {
    let harness = HazardHarness::new();
    let (client, mut theirs) = (harness.client("").await, harness.naive());
    let mut take_theirs = || theirs.ask(&["EVAL", TAKE, "1", LOCK, "60000", "b9834f:1"]);
    let guard = take(&client, LONG).await;
    let refused = take_theirs();
    assert!(matches!(&refused, Reply::Error(error) if error.contains("WRONGTYPE")), "{refused:?}");
    assert!(guard.is_certain());
    guard.release().await.expect("unharmed");
    assert!(!matches!(take_theirs(), Reply::Error(_)));
    assert!(
        client.lock(LOCK).try_acquire().await.expect("it answers").is_none(),
        "its hash excludes our client"
    );
}
