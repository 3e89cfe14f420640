//! The SQL of PostgreSQL.

use tokio_postgres::types::Type;

use super::inserts;
use super::options::Scheme;
use crate::engines::sql::{self, FENCE, LOCKS, Statement};

/// Microseconds on the database's clock at the moment of evaluation, not when the statement began.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The statements that create the tables.
pub(super) fn create_tables(table: &str) -> String {
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

/// The SQL of a statement for the tables of this name.
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
        // The number of returned rows is the number of changed rows.
        Statement::ReleaseUncontended | Statement::RenewUncontended | Statement::RenewQueued => {
            text + " RETURNING token"
        }
        _ => text,
    }
}

fn own(statement: Statement) -> Option<&'static str> {
    match statement {
        Statement::ClaimUncontended => Some(include_str!("sql/claim_uncontended.sql")),
        Statement::MakeRow => Some(
            "INSERT INTO {lock} (name, token) SELECT $1, coalesce(max(token), 0) FROM {lock} WHERE name = '' \
             ON CONFLICT DO NOTHING",
        ),
        Statement::Heartbeat => Some(include_str!("sql/heartbeat.sql")),
        Statement::Notify => {
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
        Statement::ReleaseUncontended
        | Statement::FindEntry
        | Statement::Poll
        | Statement::ListUncontended
        | Statement::ListQueued
        | Statement::OwnRow
        | Statement::OwnEntry
        | Statement::OwnInserted
        | Statement::Notify => &[B, B],
        Statement::CountAhead
        | Statement::DeleteEntry
        | Statement::ReadInserted
        | Statement::ListInserted
        | Statement::Forget => &[B, I],
        Statement::DeleteInserted | Statement::RevokeInserted => &[B, B, B],
        Statement::RenewInserted => &[B, B, I, I],
        Statement::Insert | Statement::ReplaceInserted | Statement::DrawToken => &[B, B, I, I, B, B],
        Statement::Heartbeat
        | Statement::RenewUncontended
        | Statement::RenewQueued
        | Statement::RevokeUncontended
        | Statement::RevokeQueued => &[B, B, I],
        Statement::ReadPage | Statement::OldNames => &[B, I, I],
        Statement::WriteRow => &[B, I, I, I],
        Statement::ClaimUncontended => &[B, B, I, B, B],
        Statement::GrantEntry => &[B, I, I, I, I],
        Statement::TakeRow => &[B, I, B, I, I, B, B],
        Statement::InsertEntry => &[B, I, B, B, I, I, I, I, I, I, I, B, B],
    }
}
