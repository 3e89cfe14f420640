//! The memory and processor time of this process, from the kernel.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{SysconfVar, sysconf};

use crate::Result;

/// Memory in use now, and processor time since the start, of all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUsage {
    pub(super) resident: f64,
    pub(super) cpu: Duration,
}

impl ProcessUsage {
    pub(super) fn now() -> Result<Self> {
        let pages = resident_pages(&fs::read_to_string("/proc/self/statm")?)?;
        let page = sysconf(SysconfVar::PAGE_SIZE)?.ok_or("the kernel does not say how large a page is")?;
        Ok(Self { resident: pages * page as f64, cpu: cpu(UsageWho::RUSAGE_SELF)? })
    }

    /// Processor time of the calling thread alone.
    pub(super) fn of_this_thread() -> Result<Duration> {
        cpu(UsageWho::RUSAGE_THREAD)
    }

    /// Bytes that came since `before`, for each of `count`.
    pub(super) fn bytes_each(&self, before: &Self, count: u32) -> f64 {
        (self.resident - before.resident) / f64::from(count)
    }
}

/// User and system time.
fn cpu(of: UsageWho) -> Result<Duration> {
    let usage = getrusage(of)?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(Duration::from_micros(micros.try_into()?))
}

fn resident_pages(statm: &str) -> Result<f64> {
    Ok(statm.split(' ').nth(1).ok_or("statm is cut off")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_memory_is_counted() -> Result<()> {
        assert_eq!(resident_pages("900 250 100 1 0 80 0\n")?, 250.0);
        let before = ProcessUsage::now()?;
        let taken = vec![1_u8; 64 << 20];
        assert!(ProcessUsage::now()?.bytes_each(&before, 1) > (32 << 20) as f64, "{}", taken.len());
        Ok(())
    }

    #[test]
    fn work_is_counted_as_processor_time() -> Result<()> {
        let (all, mine) = (ProcessUsage::now()?.cpu, ProcessUsage::of_this_thread()?);
        // The kernel may count in ticks of some milliseconds.
        for _ in 0..1_000 {
            std::hint::black_box((0..3_000_000_u64).map(std::hint::black_box).sum::<u64>());
            if ProcessUsage::of_this_thread()? > mine && ProcessUsage::now()?.cpu > all {
                return Ok(());
            }
        }
        panic!("seconds of work were not seen");
    }
}
