//! The id of this process, without a system call for every read.
//!
//! The id is stored in memory that the kernel clears in every fork, whichever system call makes it. Where the
//! kernel cannot do that (before Linux 4.14, and on other systems), every read is a system call.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The address of the id; null before the first read. Not a `OnceLock`: a fork during its initialization
/// would wait for ever.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Used instead of memory that the kernel cannot clear. Always zero.
static UNSUPPORTED: AtomicU32 = AtomicU32::new(0);

/// The id of this process, as [`std::process::id`] returns it.
pub fn process_id() -> u32 {
    let mark = mark();
    match mark.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            if !ptr::eq(mark, &UNSUPPORTED) {
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
        let made = ptr::from_ref(cleared_in_forks().unwrap_or(&UNSUPPORTED)).cast_mut();
        // If another thread was faster, its address is used, and this one is not.
        let first = MARK.compare_exchange(mark, made, Ordering::AcqRel, Ordering::Acquire);
        mark = first.err().unwrap_or(made);
    }
    #[expect(unsafe_code, reason = "dereferences an address that several threads may store")]
    // SAFETY: `MARK` only ever holds null or the address of an atomic that is never freed, and it is not null
    // here.
    unsafe {
        &*mark
    }
}

/// An atomic, zero at first, that the kernel clears in every fork. It is never freed.
#[cfg(target_os = "linux")]
fn cleared_in_forks() -> Option<&'static AtomicU32> {
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
    use std::num::NonZero;

    let length = NonZero::new(size_of::<AtomicU32>())?;
    let readable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    #[expect(unsafe_code, reason = "the kernel clears whole pages only")]
    // SAFETY: The mapping is new, and the kernel chose its address. It is private and anonymous, as
    // MADV_WIPEONFORK requires, and the advice changes nothing in this process. It begins at a page, so it is
    // aligned; it is never unmapped; and it is accessed by atomic operations only.
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
        // SAFETY: The child only reads memory and exits.
        let forked = unsafe { fork() }.expect("a process");
        match forked {
            #[expect(unsafe_code, reason = "without the exit handlers of the test process")]
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
        // SAFETY: The child only makes system calls and exits.
        let forked = unsafe { fork() }.expect("a process");
        match forked {
            ForkResult::Child => {
                let is_right = process_id() == std::process::id() && process_id() != mine;
                #[expect(unsafe_code, reason = "without the exit handlers of the test process")]
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
    fn each_mapping_is_another() {
        let [one, other] = [0; 2].map(|_| cleared_in_forks().expect("this Linux is new enough"));
        one.store(1, Ordering::Relaxed);
        assert_eq!(other.load(Ordering::Relaxed), 0);
    }
}
