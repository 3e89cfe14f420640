//! Whether a connection is closed or retired, and a way to wait for it.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::net::tls_failure::TlsFailure;

/// Set once the connection must not be used for new requests. It stays set.
#[derive(Default)]
pub(super) struct CloseSignal {
    is_set: AtomicBool,
    notify: Notify,
    tls_failure: OnceLock<TlsFailure>,
}

impl CloseSignal {
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        // `notify_one` stores a permit: the only task that waits, the reader of the watch stream, may begin
        // to wait later.
        self.notify.notify_one();
    }

    /// Keeps the TLS failure, if it is why a read failed: HTTP/2 passes on only the message.
    pub(super) fn note_read_error(&self, error: &io::Error) {
        if let Some(failure) = TlsFailure::of(error) {
            let _ = self.tls_failure.set(failure);
        }
    }

    pub(super) fn tls_failure(&self) -> Option<TlsFailure> {
        self.tls_failure.get().copied()
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits until the signal is set. For one task.
    pub(super) async fn until_set(&self) {
        while !self.is_set() {
            self.notify.notified().await;
        }
    }
}
