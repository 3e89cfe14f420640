//! What the server told this client's waiting claims.
#![cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "only Redis is shared with clients that tell nobody")
)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::engine::ClaimId;
use crate::locked::locked;
use crate::names::AsItIs;

/// News for one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum News {
    /// The lock was handed over, with this token.
    Granted(u64),
    /// Something changed, or may have: ask.
    Recheck,
}

/// The waiting claims of one client, and their news.
#[derive(Default)]
pub(in crate::engines) struct Mailbox {
    /// Their ids are random, which is all that a hash is for.
    claims: Mutex<HashMap<ClaimId, Slot, AsItIs>>,
}

#[derive(Default)]
struct Slot {
    news: Option<News>,
    reader: Option<Waker>,
    /// How often in a row the lock was found with a holder that will tell nobody of its release.
    silent: u32,
    /// The shared key, if its next change is news.
    watched: Option<Box<str>>,
}

impl Mailbox {
    /// Keeps what arrives for `id` from now on. Called before the claim is sent: news may overtake its answer. Returns
    /// whether it was expected before, and only gives a sign of life now.
    pub(in crate::engines) fn expect(&self, id: ClaimId) -> bool {
        match locked(&self.claims).entry(id) {
            Entry::Occupied(slot) => slot.get().silent == 0,
            Entry::Vacant(slot) => {
                slot.insert(Slot::default());
                false
            }
        }
    }

    /// How many claims are expected to hear something.
    pub(in crate::engines) fn waiting(&self) -> usize {
        locked(&self.claims).len()
    }

    /// Forgets a claim.
    pub(in crate::engines) fn forget(&self, id: ClaimId) {
        locked(&self.claims).remove(&id);
    }

    /// Counts how often in a row this claim met a silent holder.
    pub(in crate::engines) fn met(&self, id: ClaimId, is_silent: bool) -> u32 {
        match locked(&self.claims).entry(id) {
            Entry::Vacant(_) => 0,
            Entry::Occupied(mut slot) => {
                let silent = &mut slot.get_mut().silent;
                *silent = if is_silent { silent.saturating_add(1) } else { 0 };
                *silent
            }
        }
    }

    /// From now on, a change of `key` is news for `id`.
    pub(in crate::engines) fn watch(&self, id: ClaimId, key: &str) {
        if let Some(slot) = locked(&self.claims).get_mut(&id) {
            slot.watched = Some(key.into());
        }
    }

    /// A key was changed by somebody who tells nobody: whoever watches it asks.
    pub(in crate::engines) fn changed(&self, key: &[u8]) {
        let watches =
            |slot: &&mut Slot| slot.watched.as_ref().is_some_and(|watched| watched.as_bytes() == key);
        let readers: Vec<_> = locked(&self.claims)
            .values_mut()
            .filter(watches)
            .filter_map(|slot| slot.deliver(News::Recheck))
            .collect();
        readers.into_iter().for_each(Waker::wake);
    }

    /// Puts news into the box of `id`, if it is expected.
    pub(in crate::engines) fn deliver(&self, id: ClaimId, news: News) {
        let reader = locked(&self.claims).get_mut(&id).and_then(|slot| slot.deliver(news));
        reader.into_iter().for_each(Waker::wake);
    }

    /// The connection that news come through is gone, and maybe some news with it: everybody asks.
    pub(in crate::engines) fn recheck_all(&self) {
        let readers: Vec<_> =
            locked(&self.claims).values_mut().filter_map(|slot| slot.deliver(News::Recheck)).collect();
        readers.into_iter().for_each(Waker::wake);
    }

    /// The next news for `id`. May be dropped at any time: news stay until they are returned.
    pub(in crate::engines) async fn next(&self, id: ClaimId) -> News {
        poll_fn(|context| {
            let mut claims = locked(&self.claims);
            let Some(slot) = claims.get_mut(&id) else { return Poll::Ready(News::Recheck) };
            match slot.news.take() {
                Some(news) => Poll::Ready(news),
                None => {
                    slot.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Slot {
    fn deliver(&mut self, news: News) -> Option<Waker> {
        // A grant is never overwritten by "look again", nor by an older grant that comes a second way.
        match (self.news, news) {
            (Some(News::Granted(_)), News::Recheck) => {}
            (Some(News::Granted(old)), News::Granted(new)) if old >= new => {}
            _ => self.news = Some(news),
        }
        self.reader.take()
    }
}
