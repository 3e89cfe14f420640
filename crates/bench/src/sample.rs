//! The result of a child process: its samples, or only their number.

use std::io::{self, Write};

use crate::Result;

/// One cycle of one task: request, acquisition and release, in nanoseconds since the window's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) task: u64,
    /// Just before the call of acquire.
    pub(crate) requested: u64,
    /// Just after its return.
    pub(crate) acquired: u64,
    /// Just before the call of release.
    pub(crate) released: u64,
}

/// The result of one process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerResult {
    /// The number of cycles, and their time in nanoseconds, for workloads that do not record every cycle.
    pub(crate) counted: u64,
    pub(crate) nanos: u64,
    pub(crate) samples: Vec<Sample>,
}

impl WorkerResult {
    pub(crate) fn of(samples: Vec<Sample>) -> Self {
        Self { samples, ..Self::default() }
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.counted.to_ne_bytes())?;
        to.write_all(&self.nanos.to_ne_bytes())?;
        for sample in &self.samples {
            for number in [sample.task, sample.requested, sample.acquired, sample.released] {
                to.write_all(&number.to_ne_bytes())?;
            }
        }
        to.flush()
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let (Some(counted), Some(nanos), []) = (numbers.next(), numbers.next(), rest) else {
            return Err("a child process ended without a result".into());
        };
        let numbers: Vec<_> = numbers.collect();
        let (samples, []) = numbers.as_chunks::<4>() else {
            return Err("the result of a child process is cut off".into());
        };
        let samples = samples
            .iter()
            .map(|&[task, requested, acquired, released]| Sample { task, requested, acquired, released })
            .collect();
        Ok(Self { counted, nanos, samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_back_from_a_pipe_and_a_truncated_one_is_an_error() {
        let sample = Sample { task: 3, requested: 1, acquired: 2, released: 4 };
        let result = WorkerResult { counted: 7, nanos: 9, samples: vec![sample, sample] };
        let mut bytes = Vec::new();
        result.write(&mut bytes).expect("memory takes it");
        assert_eq!(WorkerResult::read(&bytes).expect("whole"), result);
        assert!(WorkerResult::read(&bytes[..bytes.len() - 8]).is_err());
        assert!(WorkerResult::read(&[]).is_err());
    }
}
