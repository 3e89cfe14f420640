//! One guard's grip on a held claim.

use std::ops::Deref;
use std::sync::Arc;

use super::Tenure;
use crate::Result;
use crate::engine::Released;

/// One guard's grip on a held claim: alone, or with other guards of the same owner. The last to let go gives it back.
pub(crate) enum Grip {
    Alone(Tenure),
    Shared(Arc<Tenure>),
}

impl Grip {
    /// Whether other guards of the same owner hold beside it.
    #[cfg(feature = "telemetry")]
    pub(crate) fn is_nested(&self) -> bool {
        matches!(self, Self::Shared(shared) if Arc::strong_count(shared) > 1)
    }

    /// Lets go. `None` if other guards of the same owner still hold.
    pub(crate) async fn release(self) -> Option<Result<Released>> {
        let tenure = match self {
            Self::Alone(tenure) => tenure,
            Self::Shared(shared) => Arc::into_inner(shared)?,
        };
        Some(tenure.release().await)
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
