//! A process that tests drive through [`testkit::scripted_process::ScriptedProcess`].
//!
//! `scripted_process URL blocking|async` connects, and then executes commands: one line in, one line out. See
//! `commands.rs`.

mod channel;
mod commands;
mod either_client;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use channel::CommandChannel;
use commands::CommandLoop;
use either_client::EitherClient;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, url, api] = args.as_slice() else { panic!("see the top of main.rs") };
    match api.as_str() {
        "async" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(url, EitherClient::connect_async));
        }
        _ => at_once(serve(url, EitherClient::connect_blocking)),
    }
}

async fn serve(url: &str, connect: impl AsyncFnOnce(&str) -> EitherClient) {
    let client = connect(url).await;
    CommandLoop::new(url, client, CommandChannel::of_this_process()).run().await;
}

/// The blocking API never waits for a waker.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the blocking API waits for a waker"),
    }
}
