//! The boxed twin of [`Engine`], so that a [`Client`](crate::Client) is one type for all engines.
//!
//! Its futures own their arguments: the shield moves an unfinished one to a background task when the caller
//! is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{
    Busy, Claim, ClaimId, Engine, Filter, Grant, LockState, Released, Renewal, Revoke, Revoked, SharedCells,
    Verdict, Wake,
};
use crate::clock::Clock;
use crate::{Guarantees, Result};

pub(crate) type SharedEngine = Arc<dyn ErasedEngine>;
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A [`Verdict`] with a boxed `Busy`. It is moved through many functions, and most often it is `Granted`.
pub(crate) enum BoxedVerdict {
    Granted(Grant),
    Busy(Box<Busy>),
}

impl From<Verdict> for BoxedVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Granted(grant) => Self::Granted(grant),
            Verdict::Busy(busy) => Self::Busy(Box::new(busy)),
        }
    }
}

pub(crate) trait ErasedEngine: Send + Sync + 'static {
    fn guarantees(&self) -> Guarantees;
    fn clock(&self) -> Clock;
    fn fork(self: Arc<Self>) -> Boxed<Result<SharedEngine>>;
    fn claim(self: Arc<Self>, claim: Arc<Claim>) -> Boxed<Result<BoxedVerdict>>;
    fn wait(self: Arc<Self>, claim: Arc<Claim>, busy: Busy) -> Boxed<Result<Wake>>;
    fn renew(self: Arc<Self>, claims: Vec<Arc<Claim>>) -> Boxed<Vec<Result<Renewal>>>;
    fn lost_hints(self: Arc<Self>) -> Boxed<Vec<ClaimId>>;
    fn release(self: Arc<Self>, claim: Arc<Claim>) -> Boxed<Result<Released>>;
    fn inspect(self: Arc<Self>, filter: Filter) -> Boxed<Result<Vec<LockState>>>;
    fn revoke(self: Arc<Self>, state: LockState, how: Revoke) -> Boxed<Result<Revoked>>;
    fn cells(&self) -> Option<SharedCells>;
}

impl<E: Engine> ErasedEngine for E {
    fn guarantees(&self) -> Guarantees {
        Engine::guarantees(self)
    }
    fn clock(&self) -> Clock {
        Engine::clock(self)
    }
    fn fork(self: Arc<Self>) -> Boxed<Result<SharedEngine>> {
        Box::pin(async move { Ok(Arc::new(Engine::fork(&*self).await?) as SharedEngine) })
    }
    fn claim(self: Arc<Self>, claim: Arc<Claim>) -> Boxed<Result<BoxedVerdict>> {
        Box::pin(async move { Engine::claim(&*self, &claim).await.map(BoxedVerdict::from) })
    }
    fn wait(self: Arc<Self>, claim: Arc<Claim>, busy: Busy) -> Boxed<Result<Wake>> {
        Box::pin(async move { Engine::wait(&*self, &claim, &busy).await })
    }
    fn renew(self: Arc<Self>, claims: Vec<Arc<Claim>>) -> Boxed<Vec<Result<Renewal>>> {
        Box::pin(async move { Engine::renew(&*self, &claims).await })
    }
    fn lost_hints(self: Arc<Self>) -> Boxed<Vec<ClaimId>> {
        Box::pin(async move { Engine::lost_hints(&*self).await })
    }
    fn release(self: Arc<Self>, claim: Arc<Claim>) -> Boxed<Result<Released>> {
        Box::pin(async move { Engine::release(&*self, &claim).await })
    }
    fn inspect(self: Arc<Self>, filter: Filter) -> Boxed<Result<Vec<LockState>>> {
        Box::pin(async move { Engine::inspect(&*self, &filter).await })
    }
    fn revoke(self: Arc<Self>, state: LockState, how: Revoke) -> Boxed<Result<Revoked>> {
        Box::pin(async move { Engine::revoke(&*self, &state, how).await })
    }
    fn cells(&self) -> Option<SharedCells> {
        Engine::cells(self)
    }
}
