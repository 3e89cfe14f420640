//! Every default of the core, in one place.

use std::time::Duration;

/// How long a holder that crashed may block others.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// How long a position in the queue outlives the last request of its claim; at most the ttl.
pub(crate) const WAIT_LEASE: Duration = Duration::from_secs(3);
/// How long a claim may go from task to task of one client while others may wait for it.
pub(crate) const PASS_FOR: Duration = Duration::from_millis(5);
/// A lease is renewed when this part of it has passed.
pub(crate) const RENEW_AFTER: u32 = 3;
/// A renewal is given up when it takes longer than this part of the lease.
pub(crate) const RENEW_WITHIN: u32 = 6;
/// Renewals are spread by up to this part of their interval, both ways, so that many locks do not renew at
/// one tick.
pub(crate) const RENEW_JITTER: u32 = 10;
/// Renewals that are due within this part of a ttl go together.
pub(crate) const RENEW_TOGETHER: u32 = 60;
/// Claims per renewal request.
pub(crate) const RENEW_BATCH: usize = 200;
/// How long one request may take before the engine counts as hung.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// How long a server may go on with a request that the client gave up. A database waits for two locks in a
/// row, 3 s for each.
pub(crate) const LATE: Duration = Duration::from_secs(7);
/// The shortest limit of a request, for a caller whose wait limit is shorter than a round trip.
pub(crate) const REQUEST_LEAST: Duration = Duration::from_millis(200);
/// How long claims may fail in a row before a waiter gives up: a restart of the server should not cost it its
/// position.
pub(crate) const OUTAGE_LIMIT: Duration = Duration::from_secs(30);
/// The first pause after a claim or waiting failed; doubles up to the longest.
pub(crate) const FAILED_FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest such pause.
pub(crate) const FAILED_LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long an attempt that gave up waits for the answer to its withdrawal, before that goes on in the
/// background.
pub(crate) const UNDO_LIMIT: Duration = Duration::from_secs(1);
/// How long [`Client::close`](crate::Client::close) waits for background work.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// How long the drop of the last handle of a client waits for outstanding releases, unless
/// [`Client::with_drop_timeout`](crate::Client::with_drop_timeout) says otherwise.
pub(crate) const DROP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a release whose caller is gone may stay unanswered. After that it is sent again from the client's
/// own thread, because the caller's runtime, which drives its connection, may be blocked or gone.
pub(crate) const ADOPTED_RELEASE_LIMIT: Duration = Duration::from_millis(500);
/// How long requests on other runtimes may still be answered after the last handle is dropped.
pub(crate) const SETTLE_GRACE: Duration = Duration::from_millis(20);
/// The first pause before a failed release is repeated; doubles up to the longest.
pub(crate) const JANITOR_FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
pub(crate) const JANITOR_LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The largest value of a cell.
pub(crate) const CELL_BYTES: usize = 512 * 1024;
/// How long [`Cell::update`](crate::Cell::update) retries before it reports that other writers are always
/// faster.
pub(crate) const UPDATE_LIMIT: Duration = Duration::from_secs(30);
/// The first pause after another writer was faster, drawn from zero to this; doubles up to the longest.
pub(crate) const UPDATE_FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The longest such pause.
pub(crate) const UPDATE_LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The part of a span on the server's clock that is certain on this clock. 1 % is for clock rates that
/// differ, 2 ms for the resolution of clocks.
pub(crate) fn less_drift(span: Duration) -> Duration {
    (span - span / 100).saturating_sub(Duration::from_millis(2))
}

/// How long before a lease ends its holder is told to stop.
pub(crate) fn stop_margin(span: Duration, requested: Option<Duration>) -> Duration {
    let least = Duration::from_millis(50);
    requested.unwrap_or(span / 10).max(least).min(span / 2)
}
