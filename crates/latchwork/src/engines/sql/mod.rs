//! Locks as rows of a database: one row for each lock while nobody competes, and a queue of rows when somebody does.
//!
//! The algorithm is written once. A [`Database`] knows how its server spells each [`Statement`], and how to talk to it.
//!
//! A free lock costs one statement, and so does its release. Whoever finds it taken locks its row, writes itself into the queue,
//! and goes; whoever releases locks the row, writes the next holder in, and tells it. Only the database's clock counts.

mod conflict;
mod database;
mod engine;
mod entry;
mod holder;
mod insert;
mod operations;
mod patience;
mod poll;
mod queue;
pub(super) mod session;
mod statements;
mod sweep;
mod tokens;

pub(super) use self::conflict::Conflict;
pub(super) use self::database::{Database, Query, QueryResult, Statement, Transaction, Value};
pub(super) use self::engine::{Rows, promises};
pub(super) use self::insert::{Inserts, USUAL_AGE, promises_of_insert};
pub(super) use self::patience::retry_on_conflict;
pub(super) use self::poll::look_at_cell_in;
pub(super) use self::statements::text;
pub(super) use self::tokens::{FENCE, LOCKS, TokenTable};

/// An engine of its own that does everything with the rows in it: what a database is to the algorithm stays inside.
macro_rules! engine_on_rows {
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
pub(super) use engine_on_rows;
