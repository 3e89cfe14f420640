//! The first connection of a command that waits for a lock.

use std::time::Duration;

use latchwork::clock::{self, Clock, Moment};
use latchwork::engine::EngineUrl;

use crate::connection::Connection;
use crate::duration::rounded;
use crate::failure::Failure;
use crate::output::Output;
use crate::wait_report::News;

/// The first pause between two attempts; doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The time that an attempt has at the least, also when the wait limit is shorter than a connection takes.
const LEAST: Duration = Duration::from_secs(1);

/// Connects. While the server cannot be reached, tries again until `end`; without an end, forever.
///
/// A job that starts with its machine must not fail because the server starts a second later.
pub(crate) async fn connect(
    url: &EngineUrl,
    output: Output,
    (began, end): (Moment, Option<Moment>),
    news: &News,
) -> Result<Connection, Failure> {
    let clock = Clock::boottime();
    let (mut pause, mut newest, mut since) = (FIRST_PAUSE, None, None);
    loop {
        let attempt = Connection::open(url, output);
        let attempt = match end {
            None => attempt.await,
            Some(end) => {
                let left = end.since(clock.now()).max(LEAST);
                let Ok(attempt) = tokio::time::timeout(left, attempt).await else {
                    return Err(given_up(url, newest, end.since(began)));
                };
                attempt
            }
        };
        let failure = match attempt {
            Err(failure) if may_pass(&failure) => failure,
            attempt => return attempt,
        };
        news.no_connection(&failure, *since.get_or_insert_with(|| clock.now()));
        newest = Some(failure);
        // Between half and all of the pause: many clients that wait for one server must not come at one instant.
        let [random] = clock::random_bytes();
        let until = clock.now().after(pause / 2 + pause / 2 * u32::from(random) / 255);
        if let Some(end) = end.filter(|end| *end <= until) {
            clock.sleep_until(end).await;
            return Err(given_up(url, newest, end.since(began)));
        }
        clock.sleep_until(until).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether another attempt may succeed without a change of the URL or of the server's settings.
fn may_pass(failure: &Failure) -> bool {
    failure.kind() == "unreachable" && !failure.is_about_tls()
}

fn given_up(url: &EngineUrl, newest: Option<Failure>, waited: Duration) -> Failure {
    let waited = rounded(waited);
    match newest {
        Some(failure) => failure.after(&format!("could not connect within {waited}")),
        None => Failure::unreachable(format!(
            "could not connect within {waited}: {} does not answer",
            url.scheme()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use testkit::servers::Certificates;

    use super::*;

    #[test]
    fn only_a_server_that_is_not_there_yet_is_worth_another_attempt() {
        let passes = |message: &str| may_pass(&Failure::unreachable(message));
        assert!(passes("redis at h:6379: Connection refused (os error 111)"));
        assert!(passes("redis at h:6379: LOADING Redis is loading the dataset in memory"));
        assert!(passes("redis at h:6379: no answer in time; does this port speak TLS?"));
        assert!(!may_pass(&Failure::new(crate::failure::USAGE, "a bad URL")));
    }
    /// Each is what a server sends instead of its part of the TLS handshake.
    #[tokio::test]
    async fn a_server_with_which_tls_fails_is_not_worth_another_attempt() {
        let certificates = Certificates::make();
        for (sent, may_pass_later) in [
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
            assert_eq!(may_pass(&Failure::from(error)), may_pass_later, "{sent:?}");
        }
    }
}
