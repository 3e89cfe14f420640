//! The SQL that all databases have in common. `$1` is the first value, `{lock}` and `{claim}` are the tables.
//! `{now}` is the database's clock in microseconds at the moment when the expression is evaluated, not when
//! the statement began.

use super::statement::Statement;

const ENTRY: &str =
    "ticket, id, channel, mode, permits, token, hand_over, expires, since, revoked, note, owner";
const HOLDER: &str = "id, expires, since, revoked, note, owner";

/// The SQL of a statement for the tables whose names begin with `table`. `own` is the SQL of this database,
/// where it differs.
pub(in crate::engines) fn text(statement: Statement, own: Option<&str>, table: &str, now: &str) -> String {
    own.unwrap_or_else(|| common(statement))
        .replace("{lock}", &format!("{table}_lock"))
        .replace("{claim}", &format!("{table}_claim"))
        .replace("{now}", now)
        .replace("{entry}", ENTRY)
        .replace("{holder}", HOLDER)
}

fn common(statement: Statement) -> &'static str {
    match statement {
        Statement::ReleaseUncontended => include_str!("release_uncontended.sql"),
        Statement::LockRow => {
            "SELECT token, contended, ticket, {holder} FROM {lock} WHERE name = $1 FOR UPDATE"
        }
        Statement::Now => "SELECT {now}",
        Statement::WriteRow => {
            "UPDATE {lock} SET token = greatest(token, $2), contended = $3, ticket = $4, id = NULL WHERE name = $1"
        }
        Statement::TakeRow => {
            "UPDATE {lock} SET token = $2, id = $3, expires = $4, since = $5, note = $6, owner = $7, revoked = 0 \
             WHERE name = $1"
        }
        Statement::FindEntry => "SELECT {entry} FROM {claim} WHERE name = $1 AND id = $2",
        // FOR UPDATE: a holder renews its entry without a lock on the row of the lock.
        Statement::ReadPage => {
            "SELECT {entry} FROM {claim} WHERE name = $1 AND ticket > $2 ORDER BY ticket LIMIT $3 FOR UPDATE"
        }
        Statement::CountAhead => {
            "SELECT count(*) FROM (SELECT 1 FROM {claim} WHERE name = $1 AND ticket > 0 AND ticket < $2 LIMIT 1000) AS ahead"
        }
        Statement::InsertEntry => {
            "INSERT INTO {claim} (name, {entry}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
        }
        Statement::DeleteEntry => "DELETE FROM {claim} WHERE name = $1 AND ticket = $2",
        Statement::GrantEntry => {
            "UPDATE {claim} SET token = $3, expires = $4, since = $5 WHERE name = $1 AND ticket = $2"
        }
        Statement::Poll => include_str!("poll.sql"),
        Statement::RenewUncontended => {
            "UPDATE {lock} SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND contended = 0 AND revoked = 0 \
             AND expires > {now}"
        }
        Statement::RenewQueued => {
            "UPDATE {claim} SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND token <> 0 AND revoked = 0 \
             AND expires > {now}"
        }
        Statement::RevokeUncontended => {
            "UPDATE {lock} SET revoked = 1, id = CASE WHEN $3 = 1 THEN NULL ELSE id END WHERE name = $1 AND id = $2"
        }
        Statement::RevokeQueued => {
            "UPDATE {claim} SET revoked = 1, hand_over = CASE WHEN $3 = 1 THEN expires ELSE hand_over END, \
             ticket = CASE WHEN $3 = 1 THEN -token ELSE ticket END, expires = CASE WHEN $3 = 1 THEN 0 ELSE expires END \
             WHERE name = $1 AND id = $2"
        }
        Statement::ListUncontended => {
            "SELECT {now}, name, token, {holder} FROM {lock} WHERE name BETWEEN $1 AND $2 AND contended = 0 \
             AND id IS NOT NULL ORDER BY name"
        }
        Statement::ListQueued => {
            "SELECT {now}, name, {entry} FROM {claim} WHERE name BETWEEN $1 AND $2 ORDER BY name, ticket"
        }
        Statement::Heartbeat => {
            "UPDATE {claim} SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND token = 0"
        }
        Statement::OwnRow => "SELECT token FROM {lock} WHERE name = $1 AND id = $2 FOR UPDATE SKIP LOCKED",
        Statement::OwnEntry => "SELECT token FROM {claim} WHERE name = $1 AND id = $2 FOR UPDATE SKIP LOCKED",
        // Each database has its own SQL for these.
        _ => "",
    }
}
