//! A process for tests to experiment on, driven by [`testkit::subject::Subject`].
//!
//! `subject URL blocking|async` connects, and then does what it is told: one line in, one line out. See `orders.rs`.

mod hands;
mod orders;
mod talk;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hands::Hands;
use orders::Orders;
use talk::Talk;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, url, api] = args.as_slice() else { panic!("see the top of main.rs") };
    match api.as_str() {
        "async" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(url, Hands::in_the_runtime));
        }
        _ => at_once(serve(url, Hands::in_no_runtime)),
    }
}

async fn serve(url: &str, connect: impl AsyncFnOnce(&str) -> Hands) {
    let hands = connect(url).await;
    Orders::new(url, hands, Talk::of_this_process()).follow().await;
}

/// Nothing of the blocking kind ever waits for a waker.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("this blocks instead of waiting"),
    }
}
