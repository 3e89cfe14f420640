//! What has arrived.

/// How much is read at once, unless a reply is longer.
const USUAL_READ: usize = 8 * 1024;

/// What has arrived and was not read yet.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; USUAL_READ], from: 0, to: 0 }
    }

    /// What was not read yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// So much more has arrived where there was room.
    pub(super) fn arrived(&mut self, length: usize) {
        self.to += length;
    }

    /// So much was read.
    pub(super) fn read(&mut self, length: usize) {
        self.from += length;
    }

    /// Where more can be put; `None` if so much has arrived that it is no reply.
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
            let (mut inbox, mut arrived) = (Inbox::new(), 0);
            // Behind one that was read.
            inbox.arrived(10);
            inbox.read(9);
            while let Some(room) = inbox.room(longest) {
                let length = room.len().min(1_000);
                assert!(length > 0);
                room[..length].fill(b'x');
                inbox.arrived(length);
                arrived += length;
            }
            assert_eq!((inbox.unread().len(), arrived), (longest, longest - 1));
            assert!(inbox.unread()[1..].iter().all(|byte| *byte == b'x'));
            inbox.read(longest);
            assert_eq!(inbox.room(longest).map(|room| room.len()), Some(inbox.bytes.len()));
            assert!(inbox.bytes.len() <= 8 * USUAL_READ, "it is small again");
        }
    }
}
