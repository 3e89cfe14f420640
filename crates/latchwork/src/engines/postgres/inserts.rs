//! The SQL of PostgreSQL for `scheme=insert`. The columns of the shared table may have any text type.

use crate::engines::sql::{Statement, TokenTable};

/// The table of tokens.
const TOKENS: TokenTable = TokenTable {
    suffix: "token",
    name: "unique_mutex",
    value: "convert_from($1, 'UTF8')",
    name_as_bytes: "convert_to(unique_mutex, 'UTF8')",
    others: [", holder_id, since, note", ", '', 0, ''"],
    has_locks: false,
};

/// The statements that this database uses: one statement inserts, replaces and draws a token.
pub(super) const USED: [Statement; 7] = [
    Statement::Insert,
    Statement::RenewInserted,
    Statement::DeleteInserted,
    Statement::RevokeInserted,
    Statement::ReadInserted,
    Statement::ListInserted,
    Statement::OwnInserted,
];

/// The statements that create the tables.
pub(super) fn create_tables(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
  unique_mutex varchar(512) NOT NULL UNIQUE, holder_id varchar(255) NOT NULL,
  create_time timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {table}_token (
  unique_mutex text COLLATE \"C\" PRIMARY KEY, token bigint NOT NULL, holder_id text COLLATE \"C\" NOT NULL,
  since bigint NOT NULL, note text NOT NULL
) WITH (fillfactor = 50);"
    )
}

/// The SQL of a statement for the tables of this name. `now` is the expression for the time in microseconds.
pub(super) fn text(statement: Statement, table: &str, now: &str) -> String {
    if Statement::OF_SWEEP.contains(&statement) {
        return TOKENS.text(statement, table, now);
    }
    let age = match statement {
        Statement::ReadInserted | Statement::ListInserted => "($2 * interval '1 microsecond')",
        _ => "($4 * interval '1 microsecond')",
    };
    let which = match statement {
        Statement::ReadInserted => "l.unique_mutex = convert_from($1, 'UTF8')",
        _ => "starts_with(l.unique_mutex, convert_from($1, 'UTF8'))",
    };
    template(statement)
        .replace(
            "{left}",
            "(extract(epoch FROM l.create_time + {age} - clock_timestamp()) * 1000000)::bigint",
        )
        // Shifted into the past or the future, so that the row expires with the ttl.
        .replace("{from}", "clock_timestamp() + ($3 - $4) * interval '1 microsecond'")
        .replace("{which}", which)
        .replace("{age}", age)
        .replace("{now}", now)
        .replace("{table}", table)
}

fn template(statement: Statement) -> &'static str {
    match statement {
        Statement::Insert => include_str!("sql/insert.sql"),
        Statement::RenewInserted => {
            "UPDATE {table} AS l SET create_time = {from} WHERE unique_mutex = convert_from($1, 'UTF8') \
             AND holder_id = convert_from($2, 'UTF8') AND create_time + {age} > clock_timestamp() RETURNING true"
        }
        Statement::DeleteInserted => {
            "DELETE FROM {table} WHERE unique_mutex = convert_from($1, 'UTF8') \
             AND holder_id IN (convert_from($2, 'UTF8'), convert_from($3, 'UTF8')) RETURNING true"
        }
        Statement::RevokeInserted => {
            "UPDATE {table} SET holder_id = convert_from($3, 'UTF8') WHERE unique_mutex = convert_from($1, 'UTF8') \
             AND holder_id = convert_from($2, 'UTF8') RETURNING true"
        }
        Statement::OwnInserted => {
            "SELECT true FROM {table} WHERE unique_mutex = convert_from($1, 'UTF8') \
             AND holder_id = convert_from($2, 'UTF8') FOR UPDATE SKIP LOCKED"
        }
        _ => include_str!("sql/read_inserted.sql"),
    }
}
