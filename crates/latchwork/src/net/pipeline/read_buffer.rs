//! Bytes that have arrived and were not parsed yet.

/// The size of a read, unless a reply is longer.
const USUAL_READ: usize = 8 * 1024;

/// Grows for a long reply, and shrinks behind it.
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl ReadBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; USUAL_READ], from: 0, to: 0 }
    }

    /// Bytes that were not consumed yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// So many bytes were read into the room.
    pub(super) fn filled(&mut self, length: usize) {
        self.to += length;
    }

    /// So many bytes were parsed.
    pub(super) fn consume(&mut self, length: usize) {
        self.from += length;
    }

    /// Room for more bytes. `None` if the longest reply would fit into those that are there.
    pub(super) fn room(&mut self, longest: usize) -> Option<&mut [u8]> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            if self.bytes.len() > 8 * USUAL_READ {
                self.bytes = vec![0; USUAL_READ];
            }
        } else if self.to == self.bytes.len() {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            if self.to >= longest {
                return None;
            }
            if self.to > self.bytes.len() / 2 {
                let length = (2 * self.bytes.len()).min(longest).max(self.bytes.len());
                self.bytes.resize(length, 0);
            }
        }
        Some(&mut self.bytes[self.to..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_longest_reply_and_for_no_more() {
        for longest in [USUAL_READ, USUAL_READ + 1, 100_000, 1 << 20] {
            let (mut buffer, mut arrived) = (ReadBuffer::new(), 0);
            // Behind one that was read.
            buffer.filled(10);
            buffer.consume(9);
            while let Some(room) = buffer.room(longest) {
                let length = room.len().min(1_000);
                assert!(length > 0);
                room[..length].fill(b'x');
                buffer.filled(length);
                arrived += length;
            }
            assert_eq!((buffer.unread().len(), arrived), (longest, longest - 1));
            assert!(buffer.unread()[1..].iter().all(|byte| *byte == b'x'));
            buffer.consume(longest);
            assert_eq!(buffer.room(longest).map(|room| room.len()), Some(buffer.bytes.len()));
            assert!(buffer.bytes.len() <= 8 * USUAL_READ, "it is small again");
        }
    }
}
