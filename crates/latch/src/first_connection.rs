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
    failure.kind() == "unreachable" && !failure.message().is_some_and(is_about_tls)
}

/// The library has one kind for every failed connection; a certificate that is refused stays refused.
fn is_about_tls(message: &str) -> bool {
    ["ertificate", "InvalidContentType", "fatal alert"].iter().any(|words| message.contains(words))
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
    use super::*;

    #[test]
    fn only_a_server_that_is_not_there_yet_is_worth_another_attempt() {
        let passes = |message: &str| may_pass(&Failure::unreachable(message));
        assert!(passes("redis at h:6379: Connection refused (os error 111)"));
        assert!(passes("redis at h:6379: LOADING Redis is loading the dataset in memory"));
        assert!(passes("redis at h:6379: no answer in time; does it speak TLS on this port?"));
        for refused in [
            "invalid peer certificate: UnknownIssuer; ca= in the URL names the authority to trust",
            "received fatal alert: CertificateRequired",
            "received corrupt message of type InvalidContentType",
        ] {
            assert!(!passes(refused), "{refused}");
        }
        assert!(!may_pass(&Failure::new(crate::failure::USAGE, "a bad URL")));
    }
}
