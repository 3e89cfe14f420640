//! How bad a network is.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How long requests take, and how often they go wrong. Chances are percentages; the first four exclude each other, so
/// their sum is at most 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The request fails before it has an effect, and says so.
    pub refused: u8,
    /// The request fails after it had its effect, and the caller cannot know.
    pub broken: u8,
    /// The request never arrives and is never answered.
    pub vanished: u8,
    /// The request has its effect and is never answered.
    pub silent: u8,
    /// The request arrives a second time.
    pub duplicated: u8,
    /// The server forgets who holds the lock, after the request had its effect.
    pub forgets: u8,
    /// How long a request is under way.
    pub request: RangeInclusive<Duration>,
    /// How long an answer, or a pushed grant, is under way.
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

    /// Everything goes wrong now and then, and takes up to half a second. The server keeps what it knows.
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
