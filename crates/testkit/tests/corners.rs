//! Corners where two rules of the core meet, on paused time where time matters.

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Far more calls than a task may make before tokio wants it to return.
#[test]
fn a_task_may_make_any_number_of_blocking_calls() {
    let (sender, done) = std::sync::mpsc::channel();
    // On a thread of its own, so that a call that never returns is a failure and not a test that hangs.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = latchwork::blocking::connect("memory:").expect("memory");
            for _ in 0..1_000 {
                client.lock("a").acquire().expect("free").release().expect("held");
            }
        });
        let _ = sender.send(());
    });
    done.recv_timeout(20 * SECOND).expect("they all return");
}
