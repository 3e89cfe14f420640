//! A process that ends without releasing its lock, as short jobs do.
//!
//! `unclean_exit ENDING URL NAME` acquires the lock with a ttl far longer than its life and ends as `ENDING`
//! says. See [`testkit::unclean_exit::Ending`].

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use latchwork::{Client, Guard, Lock, blocking};
use testkit::unclean_exit::{Ending, TTL};
use tokio::runtime::{Builder, Runtime};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, ending, url, name] = args.as_slice() else { panic!("see the top of unclean_exit.rs") };
    match Ending::named(ending) {
        Ending::CurrentThread => current_thread().block_on(return_early(url, name)),
        Ending::MultiThread => multi_thread().block_on(return_early(url, name)),
        Ending::Panic => current_thread().block_on(panic_with_a_guard(url, name)),
        Ending::Blocking => return_early_without_async(url, name),
        Ending::ShutdownBackground => {
            let runtime = multi_thread();
            let held = runtime.block_on(acquire(url, name));
            runtime.shutdown_background();
            drop(held);
        }
        Ending::RuntimeDropped => {
            let runtime = current_thread();
            let (guard, client) = runtime.block_on(acquire(url, name));
            runtime.spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            runtime.block_on(tokio::task::yield_now());
            drop(runtime);
            drop(client);
        }
        Ending::GuardOutlivesClient => current_thread().block_on(async {
            let (_guard, client) = acquire(url, name).await;
            drop(client);
        }),
        Ending::AcquireDropped => current_thread().block_on(drop_an_acquire(url, name)),
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn lock(client: &Client, name: &str) -> Lock {
    client.lock(name).ttl(TTL).wait(Duration::from_secs(10))
}

/// The guard comes first, so that it is dropped before its client.
async fn acquire(url: &str, name: &str) -> (Guard, Client) {
    let client = latchwork::connect(url).await.expect("the engine accepts the connection");
    (lock(&client, name).acquire().await.expect("the lock is free"), client)
}

async fn return_early(url: &str, name: &str) {
    let _held = acquire(url, name).await;
}

fn return_early_without_async(url: &str, name: &str) {
    let client = blocking::connect(url).expect("the engine accepts the connection");
    let _guard = client.lock(name).ttl(TTL).acquire().expect("the lock is free");
}

async fn panic_with_a_guard(url: &str, name: &str) {
    let _held = acquire(url, name).await;
    std::panic::resume_unwind(Box::new("as told"));
}

/// The first lock opens the connection, so that the claim of the second is sent by its first poll.
async fn drop_an_acquire(url: &str, name: &str) {
    let (warm_up, client) = acquire(url, &format!("{name}-warm-up")).await;
    warm_up.release().await.expect("held");
    let lock = lock(&client, name);
    let _ = pin!(lock.acquire()).poll(&mut Context::from_waker(Waker::noop()));
}
