//! The conditions of a simulated network.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The latencies of requests, and the chances of faults. Chances are percentages; the first four exclude each
/// other, so their sum is at most 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The request fails before it takes effect, and the error says so.
    pub refused: u8,
    /// The request fails after it took effect, and the caller cannot know.
    pub broken: u8,
    /// The request never arrives and is never answered.
    pub vanished: u8,
    /// The request takes effect and is never answered.
    pub silent: u8,
    /// The request arrives a second time.
    pub duplicated: u8,
    /// The server forgets the lock's holder after the request took effect.
    pub forgets: u8,
    /// The latency of a request.
    pub request: RangeInclusive<Duration>,
    /// The latency of an answer, or of a pushed grant.
    pub reply: RangeInclusive<Duration>,
    /// How much later a duplicate arrives.
    pub duplicate_after: RangeInclusive<Duration>,
}

impl Conditions {
    /// Short delays, no faults.
    pub const fn calm() -> Self {
        let short = Duration::from_micros(50)..=Duration::from_millis(2);
        let (request, reply) = (Duration::from_micros(50)..=Duration::from_millis(2), short);
        Self {
            refused: 0,
            broken: 0,
            vanished: 0,
            silent: 0,
            duplicated: 0,
            forgets: 0,
            request,
            reply,
            duplicate_after: Duration::ZERO..=Duration::from_secs(5),
        }
    }

    /// Every fault happens now and then, and messages take up to half a second. The server keeps its state.
    pub const fn storm() -> Self {
        Self {
            refused: 5,
            broken: 5,
            vanished: 3,
            silent: 3,
            duplicated: 10,
            request: Duration::ZERO..=Duration::from_millis(500),
            reply: Duration::ZERO..=Duration::from_millis(500),
            ..Self::calm()
        }
    }
}
