//! How PostgreSQL spells the statements.

use tokio_postgres::types::Type;

use super::inserts;
use super::options::Scheme;
use crate::engines::sql::{self, FENCE, LOCKS, Statement};

/// Microseconds on the database's clock, when it is looked at and not when the statement began.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// What makes the tables.
pub(super) fn tables(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table}_lock (
  name bytea PRIMARY KEY, token bigint NOT NULL, contended bigint NOT NULL DEFAULT 0, ticket bigint NOT NULL DEFAULT 0,
  id bytea, expires bigint NOT NULL DEFAULT 0, since bigint NOT NULL DEFAULT 0, revoked bigint NOT NULL DEFAULT 0,
  note bytea NOT NULL DEFAULT '', owner bytea
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {table}_claim (
  name bytea, ticket bigint, id bytea NOT NULL, channel bytea NOT NULL, mode bigint NOT NULL, permits bigint NOT NULL,
  token bigint NOT NULL, hand_over bigint NOT NULL, expires bigint NOT NULL, since bigint NOT NULL,
  revoked bigint NOT NULL, note bytea NOT NULL, owner bytea, PRIMARY KEY (name, ticket), UNIQUE (name, id)
) WITH (fillfactor = 50);"
    )
}

/// The statement with the tables of this name.
pub(super) fn text(statement: Statement, scheme: Scheme, table: &str) -> String {
    match scheme {
        Scheme::Insert => return inserts::text(statement, table, NOW),
        Scheme::Session => return FENCE.text(statement, table, NOW),
        Scheme::Row if Statement::OF_SWEEP.contains(&statement) => {
            return LOCKS.text(statement, table, NOW);
        }
        Scheme::Row => {}
    }
    let text = sql::text(statement, own(statement), table, NOW);
    match statement {
        // So that what was changed can be counted.
        Statement::ReleaseFree | Statement::RenewFree | Statement::RenewQueued => text + " RETURNING token",
        _ => text,
    }
}

fn own(statement: Statement) -> Option<&'static str> {
    match statement {
        Statement::ClaimFree => Some(include_str!("sql/claim_free.sql")),
        Statement::MakeRow => Some(
            "INSERT INTO {lock} (name, token) SELECT $1, coalesce(max(token), 0) FROM {lock} WHERE name = '' \
             ON CONFLICT DO NOTHING",
        ),
        Statement::Touch => Some(include_str!("sql/touch.sql")),
        Statement::Tell => {
            Some("SELECT pg_notify(convert_from($1, 'UTF8'), convert_from($2, 'UTF8')) IS NULL")
        }
        _ => None,
    }
}

/// The types of a statement's values.
pub(super) fn types(statement: Statement) -> &'static [Type] {
    const B: Type = Type::BYTEA;
    const I: Type = Type::INT8;
    match statement {
        Statement::Now
        | Statement::SweepDue
        | Statement::MakeFloor
        | Statement::LockFloor
        | Statement::RaiseFloor => &[],
        Statement::LockRow | Statement::MakeRow | Statement::ForgetRevoked => &[B],
        Statement::ReleaseFree
        | Statement::Find
        | Statement::Look
        | Statement::ListFree
        | Statement::ListQueued
        | Statement::OwnRow
        | Statement::OwnEntry
        | Statement::OwnInserted
        | Statement::Tell => &[B, B],
        Statement::Ahead | Statement::Leave | Statement::Held | Statement::HeldBelow | Statement::Forget => {
            &[B, I]
        }
        Statement::Remove | Statement::Mark => &[B, B, B],
        Statement::Prolong => &[B, B, I, I],
        Statement::Put | Statement::TakeOld | Statement::Draw => &[B, B, I, I, B, B],
        Statement::Touch
        | Statement::RenewFree
        | Statement::RenewQueued
        | Statement::RevokeFree
        | Statement::RevokeQueued => &[B, B, I],
        Statement::Page | Statement::OldNames => &[B, I, I],
        Statement::WriteRow => &[B, I, I, I],
        Statement::ClaimFree => &[B, B, I, B, B],
        Statement::Grant => &[B, I, I, I, I],
        Statement::TakeRow => &[B, I, B, I, I, B, B],
        Statement::Enrol => &[B, I, B, B, I, I, I, I, I, I, I, B, B],
    }
}
