//! Fencing tokens.

use std::fmt;

/// A fencing token: greater than the token of every earlier grant of the same lock.
///
/// Send it with every write to the protected resource, and let the resource refuse a token lower than the
/// greatest it has seen.
///
/// Tokens fit a signed 64-bit column. On most engines they exceed 2^53, and a double rounds integers above
/// that: JavaScript, Lua (also in Redis scripts) and many JSON parsers cannot distinguish neighbouring
/// tokens. So write a token as text in JSON, as `latch --json` does, and compare [`Token::fixed_width`] as
/// text where integers are doubles.
///
/// The low eight bits count the passes of one engine grant between tasks of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    const PASS_BITS: u32 = 8;

    /// The token of the `pass`-th use of a grant.
    pub(crate) const fn new(engine_token: u64, pass: u8) -> Self {
        Self(engine_token << Self::PASS_BITS | pass as u64)
    }

    /// The number to store and to compare.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The token as 20 digits, whose order as text is that of the numbers. For stores without 64-bit
    /// integers, as Lua.
    pub fn fixed_width(self) -> String {
        format!("{:020}", self.0)
    }

    /// The token with a number that was stored.
    pub(crate) const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The token of the engine: an etcd revision, a ZooKeeper zxid, a counter.
    pub const fn engine_token(self) -> u64 {
        self.0 >> Self::PASS_BITS
    }
}

/// The engine token of the next grant, after the newest one of the same lock.
///
/// It is above `last`, also if the clock was set back, and at least `floor`, which most engines set to the
/// wall clock in microseconds, so that tokens still rise after the stored state was destroyed. Statements and
/// scripts that compute a token on a server use this formula as well.
#[cfg_attr(not(feature = "all-engines"), allow(dead_code, reason = "some servers draw the token"))]
pub(crate) fn next_engine_token(last: u64, floor: u64) -> u64 {
    floor.max(last + 1)
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_and_every_grant_raises_the_token() {
        let tokens = [Token::new(7, 0), Token::new(7, 1), Token::new(7, 255), Token::new(8, 0)];
        assert!(tokens.is_sorted_by(|a, b| a < b));
        assert_eq!(Token::new(7, 255).engine_token(), 7);
    }

    #[test]
    fn a_token_of_wall_microseconds_fits_a_signed_column_for_a_thousand_years() {
        let year_3000_micros = 1_030 * 366 * 86_400 * 1_000_000_u64;
        assert!(i64::try_from(Token::new(year_3000_micros, 255).get()).is_ok());
    }
}
