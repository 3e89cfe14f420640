//! The basic types of the protocol: integers and strings.

use super::WireError;

/// The part of a packet that was not parsed yet.
pub(super) struct PacketReader<'a>(pub(super) &'a [u8]);

impl<'a> PacketReader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(protocol_error)?;
        self.0 = rest;
        Ok(taken)
    }

    /// `int<length>`, little-endian.
    pub(super) fn fixed_int(&mut self, length: usize) -> Result<u64, WireError> {
        Ok(self.bytes(length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(super) fn byte(&mut self) -> Result<u8, WireError> {
        Ok(self.bytes(1)?[0])
    }

    /// `int<lenenc>`.
    pub(super) fn lenenc_int(&mut self) -> Result<u64, WireError> {
        match self.byte()? {
            0xfc => self.fixed_int(2),
            0xfd => self.fixed_int(3),
            0xfe => self.fixed_int(8),
            0xfb | 0xff => Err(protocol_error()),
            small => Ok(small.into()),
        }
    }

    /// `string<lenenc>`.
    pub(super) fn lenenc_string(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.lenenc_int()?).map_err(|_| protocol_error())?;
        self.bytes(length)
    }

    /// `string<NUL>`, or the rest of the packet.
    pub(super) fn null_terminated(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = &self.0[end.map_or(self.0.len(), |end| end + 1)..];
        text
    }
}

/// Adds an `int<lenenc>`.
pub(super) fn put_lenenc_int(packet: &mut Vec<u8>, length: usize) {
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
    WireError::ended("it does not speak the protocol of MySQL and MariaDB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenenc_ints_are_parsed_as_they_were_written() {
        for length in [0, 1, 0xfa, 0xfb, 0xff, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000] {
            let mut packet = Vec::new();
            put_lenenc_int(&mut packet, length);
            let mut reader = PacketReader(&packet);
            assert_eq!(reader.lenenc_int().ok(), Some(length as u64));
            assert!(reader.0.is_empty());
        }
    }

    #[test]
    fn packets_that_are_cut_short_are_errors_and_not_panics() {
        assert!(PacketReader(&[0xfc, 1]).lenenc_int().is_err());
        assert!(PacketReader(&[5, 1, 2]).lenenc_string().is_err());
        assert!(PacketReader(&[]).byte().is_err());
        assert_eq!(PacketReader(b"ab").null_terminated(), b"ab");
    }
}
