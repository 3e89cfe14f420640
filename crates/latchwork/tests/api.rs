//! The public types can be sent, shared and spawned.

use latchwork::{
    AnySegment, Cell, CellWatch, Client, Election, Error, Fenced, Guard, Leadership, Lock, LockName,
    MultiGuard, MultiHeld, MultiLock, Observer, RwLock, StripedLock, Token, Version,
};

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
    is_send_sync::<Version>();
    is_send_sync::<Cell>();
    is_send_sync::<CellWatch>();
    is_send_sync::<Election>();
    is_send_sync::<Leadership>();
    is_send_sync::<Observer>();
    is_send_sync::<Fenced<Vec<u8>>>();
    is_send_sync::<RwLock>();
    is_send_sync::<(MultiLock, MultiGuard, MultiHeld)>();
    is_send_sync::<(StripedLock, AnySegment)>();
}

#[tokio::test]
async fn what_users_await_can_be_spawned() {
    let client = latchwork::connect("memory:").await.unwrap();
    let lock = client.lock("spawned");
    let guard = is_send(lock.acquire()).await.unwrap();
    drop(is_send(guard.lost()));
    assert!(is_send(lock.try_acquire()).await.unwrap().is_none());
    is_send(guard.release()).await.unwrap();
    let both = client.multi_lock(["spawned", "too"]);
    drop(is_send(both.try_acquire()).await.unwrap());
    let guard = is_send(both.acquire()).await.unwrap();
    drop(is_send(guard.lost()));
    is_send(guard.release()).await.unwrap();
    let any = client.striped_lock("spawned", 2).any();
    drop(is_send(any.try_acquire()).await.unwrap());
    drop(is_send(any.acquire()).await.unwrap());
}

#[test]
fn an_error_that_main_returns_is_printed_as_a_sentence_and_in_full_when_asked() {
    let error = "nonsense".parse::<Version>().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().contains("is not a version"), "{error}");
    let in_full = format!("{error:#?}");
    assert!(in_full.contains("kind: Invalid") && in_full.contains("effect: None"), "{in_full}");
}
