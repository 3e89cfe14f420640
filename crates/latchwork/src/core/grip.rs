//! One guard's grip on a held claim.

use std::ops::Deref;
use std::sync::Arc;

use super::Tenure;
use crate::engine::Released;
use crate::{Loss, Result};

/// One guard's grip on a held claim: alone, or with other guards of the same owner. The last to let go gives it back.
pub(crate) enum Grip {
    Alone(Tenure),
    Shared(Arc<Tenure>),
}

impl Grip {
    /// Lets go; and why it was lost before, if it was. Freed as far as this guard goes, if others of its owner still hold.
    pub(crate) async fn release(self) -> (Result<Released>, Option<Loss>) {
        match self {
            Self::Alone(tenure) => tenure.release().await,
            Self::Shared(shared) => {
                let loss = shared.hold().loss();
                match Arc::into_inner(shared) {
                    Some(tenure) => tenure.release().await,
                    None => (Ok(Released::Freed), loss),
                }
            }
        }
    }
}

impl Deref for Grip {
    type Target = Tenure;

    fn deref(&self) -> &Tenure {
        match self {
            Self::Alone(tenure) => tenure,
            Self::Shared(shared) => shared,
        }
    }
}
