//! The first connection of a command that waits for a lock.

use std::time::Duration;

use latchwork::clock::{self, Clock, Moment};
use latchwork::engine::EngineUrl;

use crate::connection::Connection;
use crate::duration::rounded;
use crate::failure::Failure;
use crate::output::Output;
use crate::wait::WaitUpdates;

/// The first pause between two attempts. It doubles after each attempt, up to the maximum.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// The least time limit of an attempt, even if the wait limit is shorter than a connection takes.
const MIN_ATTEMPT_LIMIT: Duration = Duration::from_secs(1);

/// Connects. Retries while the server is unreachable, until `end`; without an end, forever.
///
/// A job that starts with its machine must not fail because the server starts a second later.
pub(crate) async fn connect(
    url: &EngineUrl,
    output: Output,
    (began, end): (Moment, Option<Moment>),
    updates: &WaitUpdates,
) -> Result<Connection, Failure> {
    let clock = Clock::boottime();
    let (mut backoff, mut last_failure, mut failing_since) = (INITIAL_BACKOFF, None, None);
    loop {
        let attempt = Connection::open(url, output);
        let attempt = match end {
            None => attempt.await,
            Some(end) => {
                let left = end.since(clock.now()).max(MIN_ATTEMPT_LIMIT);
                let Ok(attempt) = tokio::time::timeout(left, attempt).await else {
                    return Err(timed_out(url, last_failure, end.since(began)));
                };
                attempt
            }
        };
        let failure = match attempt {
            Err(failure) if is_temporary(&failure) => failure,
            attempt => return attempt,
        };
        updates.connection_failed(&failure, *failing_since.get_or_insert_with(|| clock.now()));
        last_failure = Some(failure);
        // Jitter between half and all of the pause: many clients that wait for one server must not connect at
        // once.
        let [random] = clock::random_bytes();
        let until = clock.now().after(backoff / 2 + backoff / 2 * u32::from(random) / 255);
        if let Some(end) = end.filter(|end| *end <= until) {
            clock.sleep_until(end).await;
            return Err(timed_out(url, last_failure, end.since(began)));
        }
        clock.sleep_until(until).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

/// Whether another attempt may succeed without a change of the URL or of the server's settings.
fn is_temporary(failure: &Failure) -> bool {
    failure.kind() == "unreachable" && !failure.is_about_tls()
}

fn timed_out(url: &EngineUrl, last_failure: Option<Failure>, waited: Duration) -> Failure {
    let context = format!("could not connect within {} (--wait)", rounded(waited));
    match last_failure {
        Some(failure) => failure.context(&context),
        None => Failure::unreachable(format!("{context}: no reply from {}", url.scheme())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use testkit::servers::Certificates;

    use super::*;

    #[test]
    fn only_a_connection_to_a_server_that_is_not_running_yet_is_retried() {
        let passes = |message: &str| is_temporary(&Failure::unreachable(message));
        assert!(passes("redis at h:6379: Connection refused (os error 111)"));
        assert!(passes("redis at h:6379: LOADING Redis is loading the dataset in memory"));
        assert!(passes("redis at h:6379: no answer in time; does this port speak TLS?"));
        assert!(!is_temporary(&Failure::new(crate::failure::USAGE, "a bad URL")));
    }
    /// Each is what a server sends instead of its part of the TLS handshake.
    #[tokio::test]
    async fn a_server_with_which_tls_fails_is_not_worth_another_attempt() {
        let certificates = Certificates::make();
        for (sent, is_temporary_failure) in [
            (&b"-ERR unknown command\r\n"[..], false),
            // The alerts certificate_required, unknown_ca and handshake_failure.
            (&[21, 3, 3, 0, 2, 2, 116], false),
            (&[21, 3, 3, 0, 2, 2, 48], false),
            (&[21, 3, 3, 0, 2, 2, 40], false),
            // A server that is going down, or coming up.
            (b"", true),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("bound");
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                let length = stream.read(&mut [0; 4096]).expect("a handshake");
                stream.write_all(sent).expect("it listens");
                length
            });
            let url = format!("rediss://{address}/?ca={}", certificates.ca().display());
            let error = latchwork::connect(&url).await.expect_err("no server");
            assert!(server.join().expect("no panic") > 0);
            assert_eq!(is_temporary(&Failure::from(error)), is_temporary_failure, "{sent:?}");
        }
    }
}
