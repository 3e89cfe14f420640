//! The layout of a record, for the scripts and for the code that reads what they wrote. It is frozen: clients
//! of earlier versions use the same keys.
//!
//! ```text
//! fence    token   16 digits, then the member of the newest grant
//! member   id 32   channel 16   mode, such as x or p3   owner   LF   note
//! tail     a member without its id
//! ```

/// Digits of a token.
pub(crate) const TOKEN_LEN: usize = 16;
/// Hexadecimal digits of a claim's id.
pub(crate) const ID_LEN: usize = 32;
/// Hexadecimal digits of a client's channel, without [`CHANNEL_PREFIX`].
pub(crate) const CHANNEL_LEN: usize = 16;

/// The first letters of modes.
pub(crate) const MODE_EXCLUSIVE: u8 = b'x';
pub(crate) const MODE_WRITE: u8 = b'w';
pub(crate) const MODE_READ: u8 = b'r';
pub(crate) const MODE_PERMIT: u8 = b'p';

/// Before every client's channel.
pub(crate) const CHANNEL_PREFIX: &str = "latchwork:";

/// The numbers that scripts name. Positions count from 1, as Lua does.
pub(super) const NUMBERS: [(&str, usize); 21] = [
    ("{{TOKEN_LEN}}", TOKEN_LEN),
    ("{{ID_LEN}}", ID_LEN),
    ("{{FENCE_ID}}", TOKEN_LEN + 1),
    ("{{FENCE_ID_END}}", TOKEN_LEN + ID_LEN),
    ("{{FENCE_MODE}}", TOKEN_LEN + ID_LEN + CHANNEL_LEN + 1),
    ("{{FENCE_OWNER}}", TOKEN_LEN + ID_LEN + CHANNEL_LEN + 2),
    ("{{MEMBER_ID_END}}", ID_LEN),
    ("{{MEMBER_CHANNEL}}", ID_LEN + 1),
    ("{{MEMBER_CHANNEL_END}}", ID_LEN + CHANNEL_LEN),
    ("{{MEMBER_MODE}}", ID_LEN + CHANNEL_LEN + 1),
    ("{{MEMBER_OWNER}}", ID_LEN + CHANNEL_LEN + 2),
    ("{{TAIL_CHANNEL_END}}", CHANNEL_LEN),
    ("{{TAIL_MODE}}", CHANNEL_LEN + 1),
    ("{{TAIL_OWNER}}", CHANNEL_LEN + 2),
    // Bytes. A mode begins with MODE_PERMIT or a later letter: a fence with a smaller byte there is another
    // program's value.
    ("{{LF}}", b'\n' as usize),
    ("{{HEX_F}}", b'f' as usize),
    ("{{MODE_PERMIT}}", MODE_PERMIT as usize),
    ("{{MODE_READ}}", MODE_READ as usize),
    ("{{MODE_WRITE}}", MODE_WRITE as usize),
    // A day. Renewals extend it during a long hold.
    ("{{FENCE_TTL_MS}}", 86_400_000),
    // Longer than every wait lease.
    ("{{QUEUE_TTL_MS}}", 60_000),
];

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::TOKEN_LEN;

    /// A script with a position of its own would read other bytes than the rest once the layout had a version
    /// 2.
    #[test]
    fn scripts_name_every_position_in_a_record() {
        let scripts = [
            CLAIM_SET,
            CLAIM_SETNX,
            CLAIM_SHARED,
            HEARTBEAT,
            RENEW,
            RENEW_SHARED,
            RELEASE,
            RELEASE_SHARED,
            INSPECT,
            REVOKE,
            REVOKE_SHARED,
            CELL_WRITE,
            REDLOCK_CLAIM,
            REDLOCK_RAISE,
            REDLOCK_HEAL,
            REDLOCK_RELEASE,
        ];
        let fragments = FRAGMENTS.map(|(_, text)| text);
        let texts = scripts.iter().copied().flatten().copied().chain(fragments);
        for line in texts.flat_map(str::lines) {
            let code = line.split("--").next().unwrap_or_default();
            let words = code.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '{' | '}'));
            for number in words.filter_map(|word| word.parse::<usize>().ok()) {
                // 64 is a number of waiters, 100 and 256 are batches.
                let is_position = (TOKEN_LEN..=122).contains(&number) && ![64, 99, 100].contains(&number);
                assert!(!is_position, "{line}");
            }
        }
        for script in scripts {
            let source = compose(script, 0, 10_000);
            assert!(!source.contains("{{") && !source.contains("--{"), "{source}");
        }
    }
}
