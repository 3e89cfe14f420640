//! The public types can be sent, shared and spawned.

use latchwork::{Client, Error, Guard, Lock, LockName, Token};

fn is_send_sync<T: Send + Sync + 'static>() {}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn what_users_hold_is_send_and_sync() {
    is_send_sync::<Client>();
    is_send_sync::<Lock>();
    is_send_sync::<Guard>();
    is_send_sync::<Error>();
    is_send_sync::<LockName>();
    is_send_sync::<Token>();
}

#[tokio::test]
async fn what_users_await_can_be_spawned() {
    let client = latchwork::connect("memory:").await.unwrap();
    let lock = client.lock("spawned");
    let guard = is_send(lock.acquire()).await.unwrap();
    drop(is_send(guard.lost()));
    assert!(is_send(lock.try_acquire()).await.unwrap().is_none());
    is_send(guard.release()).await.unwrap();
}
