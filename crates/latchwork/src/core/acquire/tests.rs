use std::time::Duration;

use super::*;
use crate::Client;
use crate::engines::Memory;

#[tokio::test(start_paused = true)]
async fn local_waiters_that_give_up_leave_nothing_in_the_queue() {
    let client = Client::new(Memory::new());
    let name = LockName::new("a").expect("a good name");
    let waiting = |core: &Core| core.queues.waiting(&name);
    let guard = client.lock("a").acquire().await.expect("free");
    let lock = client.lock("a").wait(Duration::from_millis(5));
    let timed_out: Vec<_> = (0..20)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await.is_err() })
        })
        .collect();
    let dropped: Vec<_> = (0..20)
        .map(|_| {
            let lock = client.lock("a");
            tokio::spawn(async move { drop(lock.acquire().await) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(waiting(client.core()), Some(40));
    dropped.into_iter().for_each(|task| task.abort());
    for task in timed_out {
        assert!(task.await.expect("no panic"));
    }
    assert_eq!(waiting(client.core()), Some(0));
    guard.release().await.expect("held");
    assert_eq!(waiting(client.core()), None, "the name is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_restored_image_gives_nothing_back_and_can_claim_again() {
    let memory = Memory::new();
    let client = Client::new(memory.clone());
    let name = LockName::new("a").expect("a good name");
    let held = client.lock("a").acquire().await.expect("free").into_held_claim();
    held.lease().lose(crate::Loss::Copied);
    drop(held);
    client.close().await.expect("nothing to wait for");
    assert_eq!(client.core().queues.waiting(&name), None, "the name is open");
    let filter = crate::engine::Filter::Name(name.clone());
    assert_eq!(client.inspect(&filter).await.expect("answers")[0].holders.len(), 1, "the original's");
}

/// The second guard's task finds the first half-way through its release: it can no longer hold with it.
#[tokio::test(start_paused = true)]
async fn who_comes_while_its_owner_lets_go_does_not_wait_for_itself_later() {
    let client = Client::new(Memory::new());
    let lock = client.lock("a").owner("me").wait(Duration::from_secs(5));
    let HeldClaim::Shared(first) = lock.acquire().await.expect("free").into_held_claim() else {
        panic!("alone")
    };
    let releasing = HeldClaim::Exclusive(Arc::into_inner(first).expect("the only guard"));
    let (second, released) = tokio::join!(lock.acquire(), releasing.release());
    released.0.expect("held");
    let second = second.expect("its turn");
    let third = lock.acquire().await.expect("nested in the second");
    assert_eq!(second.token().expect("tokens"), third.token().expect("tokens"));
}
