//! A number that is zero again in every fork of its process.
//!
//! Whoever wants to know whether it is still in the process that it began in can ask the system, at the price of a system call; or
//! look at a number that only its own process set.

use std::sync::atomic::AtomicU32;

/// A number, zero at first, that the system clears in every fork, by whatever way that is made. It lives for ever.
///
/// `None` where the system cannot do that: before Linux 4.14, and elsewhere.
#[cfg(target_os = "linux")]
pub fn cleared_in_forks() -> Option<&'static AtomicU32> {
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
    use std::num::NonZero;

    let length = NonZero::new(size_of::<AtomicU32>())?;
    let readable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    #[expect(unsafe_code, reason = "the system does this to whole pages only")]
    // SAFETY: The mapping is new, and placed where nothing was. It is private and anonymous, as the advice needs, which changes
    // nothing in this process. It begins at a page, so it is aligned; it is never unmapped; and only atomic operations reach it.
    unsafe {
        let page = mmap_anonymous(None, length, readable, MapFlags::MAP_PRIVATE).ok()?;
        madvise(page, length.get(), MmapAdvise::MADV_WIPEONFORK).ok()?;
        Some(AtomicU32::from_ptr(page.as_ptr().cast()))
    }
}

/// `None`: this system cannot do that.
#[cfg(not(target_os = "linux"))]
pub fn cleared_in_forks() -> Option<&'static AtomicU32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::Ordering;

    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};

    use super::*;

    #[test]
    fn a_fork_finds_zero_and_its_parent_what_it_set() {
        let mark = cleared_in_forks().expect("this Linux is new enough");
        assert_eq!(mark.swap(7, Ordering::Relaxed), 0);
        #[expect(unsafe_code, reason = "a real fork")]
        // SAFETY: The child reads memory and ends, and does nothing else.
        let forked = unsafe { fork() }.expect("a process");
        match forked {
            #[expect(unsafe_code, reason = "without what else is done at an end")]
            // SAFETY: As above.
            ForkResult::Child => unsafe { nix::libc::_exit(mark.load(Ordering::Relaxed) as i32) },
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
                assert_eq!(mark.load(Ordering::Relaxed), 7);
            }
        }
    }

    #[test]
    fn each_is_another() {
        let [one, other] = [0; 2].map(|_| cleared_in_forks().expect("this Linux is new enough"));
        one.store(1, Ordering::Relaxed);
        assert_eq!(other.load(Ordering::Relaxed), 0);
    }
}
