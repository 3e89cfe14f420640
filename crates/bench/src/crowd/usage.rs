//! What this process has used so far, as the kernel counts it.

use std::fs;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use crate::Result;

/// Memory in use now, and processor time since the start, of all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) resident: f64,
    pub(super) cpu: Duration,
}

impl Usage {
    pub(super) fn now() -> Result<Self> {
        let pages = resident_pages(&fs::read_to_string("/proc/self/statm")?)?;
        let ticks = cpu_ticks(&fs::read_to_string("/proc/self/stat")?)?;
        let resident = pages * unit(SysconfVar::PAGE_SIZE)?;
        Ok(Self { resident, cpu: Duration::from_secs_f64(ticks / unit(SysconfVar::CLK_TCK)?) })
    }

    /// Bytes that came since `before`, for each of `count`.
    pub(super) fn bytes_each(&self, before: &Self, count: u32) -> f64 {
        (self.resident - before.resident) / f64::from(count)
    }
}

fn unit(of: SysconfVar) -> Result<f64> {
    Ok(sysconf(of)?.ok_or("the kernel does not say its units")? as f64)
}

fn resident_pages(statm: &str) -> Result<f64> {
    Ok(statm.split(' ').nth(1).ok_or("statm is cut off")?.parse()?)
}

/// User and system time. The program's name comes before them and may hold spaces, so counting starts behind it.
fn cpu_ticks(stat: &str) -> Result<f64> {
    let (_, fields) = stat.rsplit_once(") ").ok_or("stat has no name")?;
    let mut fields = fields.split(' ').skip(11);
    let mut next = || -> Result<f64> { Ok(fields.next().ok_or("stat is cut off")?.parse()?) };
    Ok(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_whatever_the_program_is_called() {
        let stat = "17 (a) b) S 1 17 17 0 -1 4194560 120 0 0 0 31 11 0 0 20 0 1 0 100 200 300";
        assert_eq!(cpu_ticks(stat).expect("whole"), 42.0);
        assert_eq!(resident_pages("900 250 100 1 0 80 0\n").expect("whole"), 250.0);
        assert!(cpu_ticks("17 (a) S 1").is_err());
    }

    #[test]
    fn memory_that_was_taken_is_seen() -> Result<()> {
        let before = Usage::now()?;
        let taken = vec![1_u8; 64 << 20];
        assert!(Usage::now()?.bytes_each(&before, 1) > (32 << 20) as f64, "{}", taken.len());
        Ok(())
    }
}
