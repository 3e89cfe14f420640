//! Implements [`Engine`](crate::engine::Engine) for a public engine type by its first field.

/// The field keeps the types of its database out of the public interface.
macro_rules! delegate_engine {
    ($engine:ident) => {
        impl $crate::engine::Engine for $engine {
            fn guarantees(&self) -> $crate::Guarantees {
                self.0.guarantees()
            }

            fn clock(&self) -> $crate::clock::Clock {
                self.0.clock()
            }

            async fn fork(&self) -> $crate::Result<Self> {
                Ok(Self(self.0.fork().await?))
            }

            async fn claim(&self, claim: &$crate::engine::Claim) -> $crate::Result<$crate::engine::Verdict> {
                self.0.claim(claim).await
            }

            async fn wait(
                &self,
                claim: &$crate::engine::Claim,
                busy: &$crate::engine::Busy,
            ) -> $crate::Result<$crate::engine::Wake> {
                self.0.wait(claim, busy).await
            }

            async fn renew(
                &self,
                claims: &[std::sync::Arc<$crate::engine::Claim>],
            ) -> Vec<$crate::Result<$crate::engine::Renewal>> {
                self.0.renew(claims).await
            }

            async fn lost_hints(&self) -> Vec<$crate::engine::ClaimId> {
                self.0.lost_hints().await
            }

            async fn release(
                &self,
                claim: &$crate::engine::Claim,
            ) -> $crate::Result<$crate::engine::Released> {
                self.0.release(claim).await
            }

            async fn inspect(
                &self,
                filter: &$crate::engine::Filter,
            ) -> $crate::Result<Vec<$crate::engine::LockState>> {
                self.0.inspect(filter).await
            }

            async fn revoke(
                &self,
                lock: &$crate::engine::LockState,
                how: $crate::engine::Revoke,
            ) -> $crate::Result<$crate::engine::Revoked> {
                self.0.revoke(lock, how).await
            }

            fn cells(&self) -> Option<$crate::engine::SharedCells> {
                self.0.cells()
            }
        }
    };
}
pub(in crate::engines) use delegate_engine;
