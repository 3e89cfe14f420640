//! Durations on the command line.

use std::time::Duration;

/// `30s`, `5m`, `1h 30m`, `500ms`; a plain number is seconds, as in flock.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let parsed = if plain {
        text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    } else {
        humantime::parse_duration(text).ok()
    };
    parsed.ok_or_else(|| "write for example 30s, 5m, 1h 30m, 500ms, or a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_flock_are_both_understood() {
        for (text, millis) in
            [("30s", 30_000), ("1h 30m", 5_400_000), ("500ms", 500), ("2", 2_000), ("0.25", 250), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "-1", "soon", "1.2.3", "inf", "9999999999999999999999", "30 parsecs"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
