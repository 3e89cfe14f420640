//! A reply of which only a part has arrived.

use super::reader::{Element, ReadError, RespReader, protocol_error};
use super::reply::MAX_DEPTH;

/// The maximum number of values in a reply. A value takes far more memory than its few bytes on the wire.
const MAX_ELEMENTS: usize = 1 << 20;

/// How far an incomplete reply was scanned. The scan goes on from there when more bytes arrive, instead of
/// starting at the first byte again. No value is kept before the reply is complete.
#[derive(Default)]
pub(in crate::engines::redis) struct ScanProgress(Option<Scan>);

/// The search for the end of a reply.
#[derive(Default)]
struct Scan {
    /// The start of the first incomplete element.
    at: usize,
    /// Its line does not end before this byte.
    searched: usize,
    /// The element cannot be complete with fewer bytes.
    needed: usize,
    /// The number of values that each enclosing aggregate still lacks, the outermost first.
    open: [usize; MAX_DEPTH],
    depth: usize,
    /// The number of elements read so far.
    elements: usize,
}

impl ScanProgress {
    /// The reply is incomplete.
    pub(super) fn begin(&mut self) {
        self.0 = Some(Scan::default());
    }

    /// The reply was parsed.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    /// Whether to parse: the reply is new, or complete.
    ///
    /// # Errors
    /// If the bytes are not a reply.
    pub(super) fn is_ready(&mut self, bytes: &[u8]) -> Result<bool, String> {
        match self.0.as_mut().map_or(Ok(()), |scan| scan.resume(bytes)) {
            Ok(()) => Ok(true),
            Err(ReadError::Incomplete(_)) => Ok(false),
            Err(ReadError::Protocol(why)) => Err(why),
        }
    }
}

impl Scan {
    fn resume(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        if bytes.len() < self.needed {
            return Err(ReadError::Incomplete(self.needed));
        }
        let mut reader = RespReader { bytes, at: self.at, searched: self.searched };
        loop {
            if self.depth == MAX_DEPTH {
                return Err(too_deep());
            }
            let element = reader.element().inspect_err(|error| {
                if let ReadError::Incomplete(needed) = error {
                    (self.searched, self.needed) = (reader.searched, *needed);
                }
            })?;
            self.at = reader.at;
            self.elements += 1;
            if self.elements > MAX_ELEMENTS {
                return Err(protocol_error(&format!("a reply of more than {MAX_ELEMENTS} values")));
            }
            if self.pass(&element) {
                return Ok(());
            }
        }
    }

    /// Counts an element. Returns whether it was the last one of the reply.
    fn pass(&mut self, element: &Element<'_>) -> bool {
        let values = match element {
            Element::Array(count) | Element::Push(count) => *count,
            Element::Attributes(count) => count.saturating_add(1),
            _ => 0,
        };
        if values > 0 {
            self.open[self.depth] = values;
            self.depth += 1;
            return false;
        }
        while let Some(outer) = self.depth.checked_sub(1) {
            self.open[outer] -= 1;
            if self.open[outer] > 0 {
                return false;
            }
            self.depth = outer;
        }
        true
    }
}

pub(super) fn too_deep() -> ReadError {
    protocol_error("values nested too deep")
}
