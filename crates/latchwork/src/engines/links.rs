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
        if let Some((_, place)) = locked(&self.places).iter_mut().find(|(id, _)| *id == runtime) {
            place.link = Some(link.clone());
        }
        Ok(link)
    }

    fn opening(&self, runtime: runtime::Id) -> Arc<tokio::sync::Mutex<()>> {
        let mut places = locked(&self.places);
        // Before the attempt, which may fail or be cancelled: a runtime that has ended has no connection, and
        // no task that opens one.
        places.retain(|(id, place)| {
            *id == runtime || place.working().is_some() || Arc::strong_count(&place.opening) > 1
        });
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

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;
    use crate::{Error, ErrorKind};

    struct Open;

    impl Connection for Open {
        fn is_closed(&self) -> bool {
            false
        }
    }

    #[test]
    fn runtimes_that_ended_are_forgotten_while_nobody_can_be_reached() {
        let links = Links::<Open>::default();
        let is_down = || async { Err(Error::new(ErrorKind::Unreachable, "nobody answers")) };
        for _ in 0..100 {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            assert!(runtime.block_on(links.get(is_down)).is_err());
        }
        assert!(locked(&links.places).len() <= 1, "{} runtimes are kept", locked(&links.places).len());
    }

    #[test]
    fn a_runtime_that_opens_a_connection_is_not_forgotten_meanwhile() {
        let links = Links::<Open>::default();
        let [one, other] = [(); 2].map(|()| Builder::new_current_thread().build().expect("a runtime"));
        one.block_on(links.get(|| async {
            let opened = std::thread::scope(|scope| {
                scope.spawn(|| other.block_on(links.get(|| async { Ok(Open) })).is_ok()).join()
            });
            assert!(opened.expect("no panic"));
            Ok(Open)
        }))
        .expect("opened");
        let unused = || async { Err(Error::new(ErrorKind::Unreachable, "it has one")) };
        assert!(one.block_on(links.get(unused)).is_ok() && other.block_on(links.get(unused)).is_ok());
    }
}
