//! Ids of claims as servers keep them: 32 hexadecimal digits.

use crate::engine::ClaimId;

/// Digits of an id.
pub(super) const ID: usize = 32;

/// The digits of an id.
pub(super) fn digits(id: ClaimId) -> [u8; ID] {
    let mut digits = [0; ID];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(id.as_bytes()) {
        *pair = PAIRS[usize::from(*byte)];
    }
    digits
}

/// The two digits of every byte.
static PAIRS: [[u8; 2]; 256] = {
    let (digits, mut pairs, mut byte) = (b"0123456789abcdef", [[0; 2]; 256], 0);
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// The id that these digits stand for.
pub(super) fn parse_id(digits: &[u8]) -> Option<ClaimId> {
    let digits: &[u8; ID] = digits.try_into().ok()?;
    let value = |digit: u8| (digit as char).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
    let mut bytes = [0; ID / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
    }
    Some(ClaimId::from_bytes(bytes))
}

/// The same id for the same value of a client of another kind, for an operator to name it by.
pub(super) fn stranger_id(value: &[u8]) -> ClaimId {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, value).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half(0));
    id[8..].copy_from_slice(&half(1));
    parse_id(value).unwrap_or(ClaimId::from_bytes(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_digits() {
        let id = ClaimId::random();
        assert_eq!(digits(id).as_slice(), id.to_string().as_bytes());
        assert_eq!(parse_id(&digits(id)), Some(id));
        for strange in ["", "0123", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33), &"é".repeat(16)] {
            assert_eq!(parse_id(strange.as_bytes()), None);
        }
    }
}
