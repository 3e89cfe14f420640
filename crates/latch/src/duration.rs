//! Durations, as users write and read them.

use std::time::Duration;

/// `30s`, `5m`, `1h 30m`, `500ms`; a plain number is seconds, as in flock.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let parsed = if plain {
        text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    } else {
        humantime::parse_duration(text).ok()
    };
    parsed.ok_or_else(|| {
        "not a duration; write for example 30s, 5m, 1h 30m, 500ms, or a number of seconds".to_owned()
    })
}

/// Milliseconds below a second, whole seconds above it: precise enough for a lease.
pub(crate) fn shown(millis: u64) -> String {
    let rounded = if millis < 1_000 { millis } else { millis - millis % 1_000 };
    humantime::format_duration(Duration::from_millis(rounded)).to_string()
}

/// As [`shown`], for a `Duration`.
pub(crate) fn rounded(span: Duration) -> String {
    shown(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_units_and_plain_seconds_as_in_flock_are_parsed() {
        for (text, millis) in
            [("30s", 30_000), ("1h 30m", 5_400_000), ("500ms", 500), ("2", 2_000), ("0.25", 250), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "-1", "soon", "1.2.3", "inf", "9999999999999999999999", "30 parsecs"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_duration_above_a_second_is_shown_in_whole_seconds() {
        for (millis, text) in [(0, "0s"), (350, "350ms"), (1_999, "1s"), (65_432, "1m 5s")] {
            assert_eq!(shown(millis), text);
        }
    }
}
