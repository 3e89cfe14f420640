//! The key of one claim, and what this client knows of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::key_watch::KeyWatch;
use super::lease::EtcdLease;
use super::wait::WaiterWatches;
use crate::Loss;

/// The key of one claim, and what this client knows of it.
#[derive(Clone)]
pub(super) struct ClaimKey {
    pub(super) lease: Arc<EtcdLease>,
    pub(super) key: Vec<u8>,
    /// The revision in which the key was created, once that is known.
    pub(super) revision: Option<i64>,
    /// Unanswered requests that put the key, and unanswered requests that delete it.
    pub(super) puts: Arc<Unanswered>,
    pub(super) deletes: Arc<Unanswered>,
    /// The watches of a claim that waits.
    pub(super) waiter_watches: Option<Arc<WaiterWatches>>,
    /// The watch of the own key, from the first renewal on.
    pub(super) holder_watch: Option<Arc<KeyWatch>>,
    /// Why the claim is lost, once that is known.
    pub(super) loss: Option<Loss>,
}

impl ClaimKey {
    pub(super) fn new(lease: Arc<EtcdLease>, key: Vec<u8>) -> Self {
        Self {
            lease,
            key,
            revision: None,
            puts: Arc::default(),
            deletes: Arc::default(),
            waiter_watches: None,
            holder_watch: None,
            loss: None,
        }
    }

    /// Whether the key exists, or may exist, on the server.
    pub(super) fn may_exist(&self) -> bool {
        self.revision.is_some() || !self.puts.is_none()
    }

    /// Why the key is gone, as far as its watch has reported: an operator's client writes the key again
    /// before it deletes it.
    pub(super) fn reported_loss(&self) -> Loss {
        match &self.holder_watch {
            Some(watch) if watch.status().is_revoked => Loss::Revoked,
            _ => Loss::Removed,
        }
    }
}

/// The number of requests of one kind that were sent for a claim and not answered. The server may still carry
/// them out.
#[derive(Default)]
pub(super) struct Unanswered(AtomicU32);

impl Unanswered {
    pub(super) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Counts one more request, before it is sent. If the value is dropped before the reply, the request
    /// stays counted.
    pub(super) fn begin(&self) -> UnansweredRequest<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        UnansweredRequest(self)
    }
}

/// One request that is counted as unanswered.
pub(super) struct UnansweredRequest<'a>(&'a Unanswered);

impl UnansweredRequest<'_> {
    /// The request was carried out, or never will be.
    pub(super) fn answered(self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
