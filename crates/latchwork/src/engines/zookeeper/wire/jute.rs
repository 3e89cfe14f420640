//! Jute, the encoding of the protocol: big-endian numbers, and strings and buffers with their length before
//! them.

/// A message that is being encoded. Its first four bytes are its length, filled in at the end.
pub(super) struct OutputArchive<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> OutputArchive<'a> {
    /// Begins a message behind the content of `bytes`: several messages go out in one write.
    pub(super) fn begin(bytes: &'a mut Vec<u8>) -> Self {
        let start = bytes.len();
        bytes.extend([0; 4]);
        Self { bytes, start }
    }

    pub(super) fn int(&mut self, value: i32) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(&mut self, value: i64) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes.push(u8::from(value));
        self
    }

    pub(super) fn buffer(&mut self, value: &[u8]) -> &mut Self {
        self.int(value.len() as i32);
        self.bytes.extend(value);
        self
    }

    /// A buffer, or a length of -1 for null.
    pub(super) fn nullable(&mut self, value: Option<&[u8]>) -> &mut Self {
        match value {
            Some(value) => self.buffer(value),
            None => self.int(-1),
        }
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.buffer(value.as_bytes())
    }

    pub(super) fn end(self) {
        let length = (self.bytes.len() - self.start - 4) as u32;
        self.bytes[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// A message that is being parsed. Every method returns `None` if the message is too short: the peer speaks
/// another protocol.
pub(super) struct InputArchive<'a>(pub(super) &'a [u8]);

impl<'a> InputArchive<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A buffer. Null (a length of -1) counts as empty.
    pub(super) fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length.max(0)).ok()?)
    }

    /// A buffer, or `Some(None)` for null.
    pub(super) fn nullable(&mut self) -> Option<Option<&'a [u8]>> {
        match self.int()? {
            -1 => Some(None),
            length => Some(Some(self.take(usize::try_from(length).ok()?)?)),
        }
    }

    pub(super) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.buffer()?.to_vec()).ok()
    }

    pub(super) fn text_list(&mut self) -> Option<Vec<String>> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.text()).collect()
    }
}

/// The longest message that is read. A server sends at most its `jute.maxbuffer`, which is 1 MB unless it was
/// raised. The client allocates by the length before the message has arrived, so the length must be limited.
const MAX_MESSAGE: usize = 64 << 20;

/// Takes the first complete message out of the received bytes. `None` if it has not arrived in full.
///
/// # Errors
/// If the message is longer than the limit. The bytes after it cannot be parsed either.
pub(super) fn next_message(received: &mut Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    let Some(length) = received.first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_MESSAGE {
        return Err(format!("a message of {length} bytes; is it a ZooKeeper server?"));
    }
    let Some(message) = received.get(4..4 + length) else { return Ok(None) };
    let message = message.to_vec();
    received.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_message_by_message() {
        let mut bytes = Vec::new();
        let mut first = OutputArchive::begin(&mut bytes);
        first.int(-7).long(1 << 40).bool(true).text("naïve");
        first.end();
        OutputArchive::begin(&mut bytes).end();
        let half = bytes.split_off(9);
        assert_eq!(next_message(&mut bytes), Ok(None), "only half of it has arrived");
        bytes.extend(half);
        let message = next_message(&mut bytes).expect("a valid length").expect("all of it has arrived");
        let mut read = InputArchive(&message);
        assert_eq!((read.int(), read.long(), read.take(1)), (Some(-7), Some(1 << 40), Some(&[1][..])));
        assert_eq!(read.text().as_deref(), Some("naïve"));
        assert_eq!(read.int(), None, "past the end");
        assert_eq!(next_message(&mut bytes), Ok(Some(Vec::new())));
        assert!(bytes.is_empty());
        assert!(next_message(&mut vec![0xff; 4]).is_err() && next_message(&mut vec![0x04, 0, 0, 1]).is_err());
    }
}
