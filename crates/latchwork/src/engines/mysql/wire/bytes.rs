//! What the protocol is made of: little-endian numbers, and texts with their length before them.

use super::WireError;

/// What is left to read of a packet.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(protocol_error)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of so many bytes.
    pub(super) fn number(&mut self, bytes: usize) -> Result<u64, WireError> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(super) fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.take(1)?[0])
    }

    /// A number that says itself how long it is.
    pub(super) fn length(&mut self) -> Result<u64, WireError> {
        match self.byte()? {
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            0xfb | 0xff => Err(protocol_error()),
            small => Ok(small.into()),
        }
    }

    /// Bytes behind their length.
    pub(super) fn text(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.length()?).map_err(|_| protocol_error())?;
        self.take(length)
    }

    /// Bytes up to a zero, or to the end.
    pub(super) fn until_zero(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = &self.0[end.map_or(self.0.len(), |end| end + 1)..];
        text
    }
}

/// Adds a number that says itself how long it is.
pub(super) fn put_length(packet: &mut Vec<u8>, length: usize) {
    match length {
        0..0xfb => packet.push(length as u8),
        0xfb..0x1_0000 => {
            packet.push(0xfc);
            packet.extend((length as u16).to_le_bytes());
        }
        0x1_0000..0x100_0000 => {
            packet.push(0xfd);
            packet.extend(&(length as u32).to_le_bytes()[..3]);
        }
        _ => {
            packet.push(0xfe);
            packet.extend((length as u64).to_le_bytes());
        }
    }
}

/// A packet that this protocol does not have.
pub(super) fn protocol_error() -> WireError {
    WireError::Ended("it does not speak the protocol of MySQL and MariaDB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_they_were_written() {
        for length in [0, 1, 0xfa, 0xfb, 0xff, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000] {
            let mut packet = Vec::new();
            put_length(&mut packet, length);
            let mut reader = Reader(&packet);
            assert_eq!(reader.length().ok(), Some(length as u64));
            assert!(reader.0.is_empty());
        }
    }

    #[test]
    fn what_is_cut_short_is_an_error_and_not_a_panic() {
        assert!(Reader(&[0xfc, 1]).length().is_err());
        assert!(Reader(&[5, 1, 2]).text().is_err());
        assert!(Reader(&[]).byte().is_err());
        assert_eq!(Reader(b"ab").until_zero(), b"ab");
    }
}
