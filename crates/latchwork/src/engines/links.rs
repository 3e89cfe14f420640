//! One connection per runtime: a connection moves only when its runtime is driven, and dies with it.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::{self, Handle};

use crate::Result;
use crate::locked::locked;

/// A connection that never comes back to life: whoever finds it closed opens another.
pub(super) trait Connection {
    /// Whether a request would only fail.
    fn is_closed(&self) -> bool;
}

/// The connections of one client.
pub(super) struct Links<L> {
    /// Few, so not a map.
    places: Mutex<Vec<(runtime::Id, Place<L>)>>,
}

/// A runtime's connection, and the right to open it.
struct Place<L> {
    link: Option<Arc<L>>,
    opening: Arc<tokio::sync::Mutex<()>>,
}

impl<L> Default for Links<L> {
    fn default() -> Self {
        Self { places: Mutex::default() }
    }
}

impl<L: Connection> Links<L> {
    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// What `open` says. Nothing else was sent then.
    pub(super) async fn get<F>(&self, open: impl FnOnce() -> F) -> Result<Arc<L>>
    where
        F: Future<Output = Result<L>>,
    {
        let runtime = Handle::current().id();
        match self.working(runtime) {
            Some(link) => Ok(link),
            // Boxed, or every request would carry about what only the first needs.
            None => Box::pin(self.open(runtime, open)).await,
        }
    }

    async fn open<F>(&self, runtime: runtime::Id, open: impl FnOnce() -> F) -> Result<Arc<L>>
    where
        F: Future<Output = Result<L>>,
    {
        let opening = self.opening(runtime);
        let _turn = opening.lock().await;
        if let Some(link) = self.working(runtime) {
            return Ok(link); // Another task was faster.
        }
        let link = Arc::new(open().await?);
        let mut places = locked(&self.places);
        places.retain(|(id, place)| *id == runtime || place.working().is_some());
        if let Some((_, place)) = places.iter_mut().find(|(id, _)| *id == runtime) {
            place.link = Some(link.clone());
        }
        Ok(link)
    }

    fn opening(&self, runtime: runtime::Id) -> Arc<tokio::sync::Mutex<()>> {
        let mut places = locked(&self.places);
        if let Some((_, place)) = places.iter().find(|(id, _)| *id == runtime) {
            return place.opening.clone();
        }
        let opening = Arc::<tokio::sync::Mutex<()>>::default();
        places.push((runtime, Place { link: None, opening: opening.clone() }));
        opening
    }

    fn working(&self, runtime: runtime::Id) -> Option<Arc<L>> {
        locked(&self.places).iter().find(|(id, _)| *id == runtime)?.1.working().cloned()
    }
}

impl<L: Connection> Place<L> {
    fn working(&self) -> Option<&Arc<L>> {
        self.link.as_ref().filter(|link| !link.is_closed())
    }
}
