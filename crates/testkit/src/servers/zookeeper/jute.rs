//! Jute, the serialization of ZooKeeper: big-endian numbers, and strings with their length in front.

/// A request under construction.
#[derive(Clone, Default)]
pub(super) struct JuteWriter(Vec<u8>);

impl JuteWriter {
    pub(super) fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, is_set: bool) -> Self {
        self.0.push(is_set.into());
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut words = self.int(bytes.len() as i32);
        words.0.extend(bytes);
        words
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn and(mut self, more: &Self) -> Self {
        self.0.extend(&more.0);
        self
    }

    pub(super) fn framed(&self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}

/// A reply, read from its start. Panics if the reply is too short.
#[derive(Debug)]
pub(super) struct JuteReader {
    bytes: Vec<u8>,
    read: usize,
}

impl JuteReader {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, read: 0 }
    }

    fn take(&mut self, length: usize) -> &[u8] {
        let from = self.read;
        self.read += length;
        &self.bytes[from..self.read]
    }

    pub(super) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    pub(super) fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }

    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let length = usize::try_from(self.int()).unwrap_or(0); // -1: there are none
        self.take(length).to_vec()
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8(self.bytes()).expect("a text")
    }

    pub(super) fn texts(&mut self) -> Vec<String> {
        (0..self.int()).map(|_| self.text()).collect()
    }
}
