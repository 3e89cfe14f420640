//! How PostgreSQL spells the statements.

use tokio_postgres::types::Type;

use crate::engines::sql::Statement;

/// Microseconds on the database's clock, when it is looked at and not when the statement began.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const ENTRY: &str =
    "ticket, id, channel, mode, permits, token, hand_over, expires, since, revoked, note, owner";
const HOLDER: &str = "id, expires, since, revoked, note, owner";

/// What makes the tables.
pub(super) fn tables(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table}_lock (name bytea PRIMARY KEY, token bigint NOT NULL, \
         contended bigint NOT NULL DEFAULT 0, ticket bigint NOT NULL DEFAULT 0, id bytea, \
         expires bigint NOT NULL DEFAULT 0, since bigint NOT NULL DEFAULT 0, revoked bigint NOT NULL DEFAULT 0, \
         note bytea NOT NULL DEFAULT '', owner bytea) WITH (fillfactor = 50);\n\
         CREATE TABLE IF NOT EXISTS {table}_claim (name bytea, ticket bigint, id bytea NOT NULL, channel bytea NOT NULL, \
         mode bigint NOT NULL, permits bigint NOT NULL, token bigint NOT NULL, hand_over bigint NOT NULL, \
         expires bigint NOT NULL, since bigint NOT NULL, revoked bigint NOT NULL, note bytea NOT NULL, owner bytea, \
         PRIMARY KEY (name, ticket), UNIQUE (name, id)) WITH (fillfactor = 50);"
    )
}

/// The statement with the tables of this name.
pub(super) fn text(statement: Statement, table: &str) -> String {
    template(statement)
        .replace("{lock}", &format!("{table}_lock"))
        .replace("{claim}", &format!("{table}_claim"))
        .replace("{now}", NOW)
        .replace("{entry}", ENTRY)
        .replace("{holder}", HOLDER)
}

fn template(statement: Statement) -> &'static str {
    match statement {
        Statement::ClaimFree => include_str!("sql/claim_free.sql"),
        Statement::ReleaseFree => include_str!("sql/release_free.sql"),
        Statement::LockRow => {
            "SELECT token, contended, ticket, {holder} FROM {lock} WHERE name = $1 FOR UPDATE"
        }
        Statement::Now => "SELECT {now}",
        Statement::MakeRow => "INSERT INTO {lock} (name, token) VALUES ($1, 0) ON CONFLICT DO NOTHING",
        Statement::WriteRow => {
            "UPDATE {lock} SET token = greatest(token, $2), contended = $3, ticket = $4, id = NULL WHERE name = $1"
        }
        Statement::TakeRow => {
            "UPDATE {lock} SET token = $2, id = $3, expires = $4, since = $5, note = $6, owner = $7, revoked = 0 \
             WHERE name = $1"
        }
        Statement::Find => "SELECT {entry} FROM {claim} WHERE name = $1 AND id = $2",
        // Locked: a holder renews without having locked the row of the lock.
        Statement::Page => {
            "SELECT {entry} FROM {claim} WHERE name = $1 AND ticket > $2 ORDER BY ticket LIMIT $3 FOR UPDATE"
        }
        Statement::Ahead => {
            "SELECT count(*) FROM (SELECT 1 FROM {claim} WHERE name = $1 AND ticket < $2 LIMIT 1000) AS ahead"
        }
        Statement::Enrol => {
            "INSERT INTO {claim} (name, {entry}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
        }
        Statement::Leave => "DELETE FROM {claim} WHERE name = $1 AND ticket = $2",
        Statement::Grant => {
            "UPDATE {claim} SET token = $3, expires = $4, since = $5 WHERE name = $1 AND ticket = $2"
        }
        Statement::Touch => {
            "UPDATE {claim} AS c SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND token = 0 RETURNING ticket, \
             (SELECT min(h.expires) FROM (SELECT token, expires FROM {claim} WHERE name = $1 ORDER BY ticket LIMIT 16) AS h \
             WHERE h.token <> 0) - {now}, \
             (SELECT count(*) FROM (SELECT 1 FROM {claim} AS a WHERE a.name = $1 AND a.ticket < c.ticket LIMIT 1000) AS b), \
             (SELECT token FROM {lock} WHERE name = $1)"
        }
        Statement::RenewFree => {
            "UPDATE {lock} SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND contended = 0 AND revoked = 0 \
             AND expires > {now} RETURNING token"
        }
        Statement::RenewQueued => {
            "UPDATE {claim} SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND token <> 0 AND revoked = 0 \
             AND expires > {now} RETURNING token"
        }
        Statement::RevokeFree => {
            "UPDATE {lock} SET revoked = 1, id = CASE WHEN $3 = 1 THEN NULL ELSE id END WHERE name = $1 AND id = $2"
        }
        Statement::RevokeQueued => {
            "UPDATE {claim} SET revoked = 1, expires = CASE WHEN $3 = 1 THEN 0 ELSE expires END \
             WHERE name = $1 AND id = $2"
        }
        Statement::ListFree => {
            "SELECT {now}, name, token, {holder} FROM {lock} WHERE name BETWEEN $1 AND $2 AND contended = 0 \
             AND id IS NOT NULL ORDER BY name"
        }
        Statement::ListQueued => {
            "SELECT {now}, name, {entry} FROM {claim} WHERE name BETWEEN $1 AND $2 ORDER BY name, ticket"
        }
        Statement::Tell => "SELECT pg_notify(convert_from($1, 'UTF8'), convert_from($2, 'UTF8')) IS NULL",
    }
}

/// The types of a statement's values.
pub(super) fn types(statement: Statement) -> &'static [Type] {
    const B: Type = Type::BYTEA;
    const I: Type = Type::INT8;
    match statement {
        Statement::Now => &[],
        Statement::LockRow | Statement::MakeRow => &[B],
        Statement::ReleaseFree
        | Statement::Find
        | Statement::ListFree
        | Statement::ListQueued
        | Statement::Tell => &[B, B],
        Statement::Ahead | Statement::Leave => &[B, I],
        Statement::Touch
        | Statement::RenewFree
        | Statement::RenewQueued
        | Statement::RevokeFree
        | Statement::RevokeQueued => &[B, B, I],
        Statement::Page => &[B, I, I],
        Statement::WriteRow => &[B, I, I, I],
        Statement::ClaimFree => &[B, B, I, B, B],
        Statement::Grant => &[B, I, I, I, I],
        Statement::TakeRow => &[B, I, B, I, I, B, B],
        Statement::Enrol => &[B, I, B, B, I, I, I, I, I, I, I, B, B],
    }
}
