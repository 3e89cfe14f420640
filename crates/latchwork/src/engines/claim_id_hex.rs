//! Claim ids as servers store them: 32 lowercase hexadecimal digits.

use crate::engine::ClaimId;

/// The number of digits of an id.
pub(super) const ID_DIGITS: usize = 32;

/// An id as digits.
pub(super) fn encode_id(id: ClaimId) -> [u8; ID_DIGITS] {
    let mut digits = [0; ID_DIGITS];
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

/// The id with these digits; `None` for anything else.
pub(super) fn parse_id(digits: &[u8]) -> Option<ClaimId> {
    let digits: &[u8; ID_DIGITS] = digits.try_into().ok()?;
    let value = |digit: u8| (digit as char).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
    let mut bytes = [0; ID_DIGITS / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
    }
    Some(ClaimId::from_bytes(bytes))
}

/// An id for the value of a client of another kind, by which an operator can name it. Equal values have equal
/// ids.
pub(super) fn foreign_id(value: &[u8]) -> ClaimId {
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
        assert_eq!(encode_id(id).as_slice(), id.to_string().as_bytes());
        assert_eq!(parse_id(&encode_id(id)), Some(id));
        for malformed in ["", "0123", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33), &"é".repeat(16)] {
            assert_eq!(parse_id(malformed.as_bytes()), None);
        }
    }
}
