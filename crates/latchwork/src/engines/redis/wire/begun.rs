//! A reply that comes in pieces.

use super::reader::{Part, Reader, Stop, protocol_error};
use super::value::DEEPEST;

/// The maximum number of values in a reply. A value takes far more memory than its few bytes on the wire.
const MOST_PARTS: usize = 1 << 20;

/// How far a reply was looked through that has not come in full: it is not read from its beginning with each piece, and nothing of it
/// is kept before all of it is there.
#[derive(Default)]
pub(in crate::engines::redis) struct Begun(Option<Search>);

/// The search for the end of a reply.
#[derive(Default)]
struct Search {
    /// Where the first part begins that has not come in full.
    at: usize,
    /// Until where its line was looked through.
    searched: usize,
    /// With fewer bytes it need not be looked at.
    needed: usize,
    /// How many values are to come of each that the part stands in, the outermost first.
    open: [usize; DEEPEST],
    depth: usize,
    /// The number of parts read so far.
    parts: usize,
}

impl Begun {
    /// A reply has not come in full.
    pub(super) fn begin(&mut self) {
        self.0 = Some(Search::default());
    }

    /// It was read.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    /// Whether it is worth reading: it is new, or all of it is there.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn is_worth_reading(&mut self, bytes: &[u8]) -> Result<bool, String> {
        match self.0.as_mut().map_or(Ok(()), |search| search.go_on(bytes)) {
            Ok(()) => Ok(true),
            Err(Stop::Incomplete(_)) => Ok(false),
            Err(Stop::Protocol(why)) => Err(why),
        }
    }
}

impl Search {
    fn go_on(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.len() < self.needed {
            return Err(Stop::Incomplete(self.needed));
        }
        let mut reader = Reader { bytes, at: self.at, searched: self.searched };
        loop {
            if self.depth == DEEPEST {
                return Err(too_deep());
            }
            let part = reader.part().inspect_err(|stop| {
                if let Stop::Incomplete(needed) = stop {
                    (self.searched, self.needed) = (reader.searched, *needed);
                }
            })?;
            self.at = reader.at;
            self.parts += 1;
            if self.parts > MOST_PARTS {
                return Err(protocol_error(&format!("a reply of more than {MOST_PARTS} values")));
            }
            if self.passes(&part) {
                return Ok(());
            }
        }
    }

    /// Passes a part. Whether it was the last one of the reply.
    fn passes(&mut self, part: &Part<'_>) -> bool {
        let inner = match part {
            Part::Array(count) | Part::Push(count) => *count,
            Part::Remarks(count) => count.saturating_add(1),
            _ => 0,
        };
        if inner > 0 {
            self.open[self.depth] = inner;
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

pub(super) fn too_deep() -> Stop {
    protocol_error("values that stand in each other too deep")
}
