//! Which process this is, without a system call for every look.
//!
//! The number stands in memory that the system itself clears in every fork, by whatever way that is made. Where it cannot do
//! that (before Linux 4.14, and elsewhere) the system is asked each time.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Where the number stands; null before anybody asked. Not a lock that is made once: a fork in the middle of that would wait for ever.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Stands for memory that cannot be cleared, and stays zero.
static NONE: AtomicU32 = AtomicU32::new(0);

/// The number of this process, as [`std::process::id`] tells it.
pub fn process_id() -> u32 {
    let mark = mark();
    match mark.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            if !ptr::eq(mark, &NONE) {
                mark.store(id, Ordering::Relaxed);
            }
            id
        }
        id => id,
    }
}

fn mark() -> &'static AtomicU32 {
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let made = ptr::from_ref(cleared_in_forks().unwrap_or(&NONE)).cast_mut();
        // If another was faster, its own is used, and this one by nobody.
        let first = MARK.compare_exchange(mark, made, Ordering::AcqRel, Ordering::Acquire);
        mark = first.err().unwrap_or(made);
    }
    #[expect(unsafe_code, reason = "an address that others may write as well")]
    // SAFETY: Nobody writes anything but the address of a number that lives for ever.
    unsafe {
        &*mark
    }
}

/// A number, zero at first, that the system clears in every fork. It lives for ever.
#[cfg(target_os = "linux")]
fn cleared_in_forks() -> Option<&'static AtomicU32> {
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

#[cfg(not(target_os = "linux"))]
fn cleared_in_forks() -> Option<&'static AtomicU32> {
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
    fn it_is_the_number_that_the_system_gave_also_in_a_fork() {
        for _ in 0..3 {
            assert_eq!(process_id(), std::process::id());
        }
        assert_ne!(mark().load(Ordering::Relaxed), 0, "it is remembered");
        let mine = process_id();
        #[expect(unsafe_code, reason = "a real fork")]
        // SAFETY: The child makes a system call and ends.
        let forked = unsafe { fork() }.expect("a process");
        match forked {
            ForkResult::Child => {
                let is_right = process_id() == std::process::id() && process_id() != mine;
                #[expect(unsafe_code, reason = "without what else is done at an end")]
                // SAFETY: As above.
                unsafe {
                    nix::libc::_exit(i32::from(!is_right))
                }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
                assert_eq!(process_id(), mine);
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
