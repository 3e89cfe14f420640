//! The SQL of MySQL and MariaDB for `scheme=insert`. The columns of the shared table may have any text type,
//! and the session is in the server's own time zone, as are the other services that use the table.

use crate::engines::sql::{LOCKS, Statement, TokenTable};

/// Used only for the floor of tokens and for times that people read, so the time at which the statement began
/// is good enough.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
/// The table of tokens.
const TOKENS: TokenTable = TokenTable {
    suffix: "token",
    name: "unique_mutex",
    name_as_bytes: "unique_mutex",
    others: [", holder_id, since, note", ", '', 0, ''"],
    has_locks: false,
    ..LOCKS
};
/// The current time, shifted into the past or the future, so that the row expires with the ttl.
const CREATE_TIME: &str = "SYSDATE(6) + INTERVAL ($3 - $4) MICROSECOND";

/// The statements that create the tables. Names are bytes: in the usual collations `a`, `A` and `a ` are
/// equal.
pub(super) fn create_tables(table: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (
  unique_mutex VARBINARY(512) NOT NULL, holder_id VARBINARY(255) NOT NULL,
  create_time DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), UNIQUE KEY (unique_mutex)
) ENGINE=InnoDB"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {table}_token (
  unique_mutex VARBINARY(512) NOT NULL, token BIGINT NOT NULL, holder_id VARBINARY(255) NOT NULL,
  since BIGINT NOT NULL, note VARBINARY(1024) NOT NULL, PRIMARY KEY (unique_mutex)
) ENGINE=InnoDB"
        ),
    ]
}

/// The SQL of a statement for the tables of this name.
pub(super) fn text(statement: Statement, table: &str) -> String {
    if Statement::OF_SWEEP.contains(&statement) {
        return TOKENS.text(statement, table, NOW);
    }
    let which = match statement {
        Statement::ReadInserted => "l.unique_mutex = $1",
        _ => "LEFT(CAST(CONVERT(l.unique_mutex USING utf8mb4) AS BINARY), LENGTH($1)) = CAST($1 AS BINARY)",
    };
    template(statement)
        .replace("{which}", which)
        .replace("{from}", CREATE_TIME)
        .replace("{now}", NOW)
        .replace("{table}", table)
}

/// The query whether the table of this name can be shared.
pub(super) fn is_fit(table: &str) -> String {
    let (schema, name) = match table.split_once('.') {
        Some((schema, name)) => (format!("'{schema}'"), name),
        None => ("DATABASE()".to_owned(), table),
    };
    include_str!("sql/is_fit.sql").replace("{schema}", &schema).replace("{name}", name)
}

fn template(statement: Statement) -> &'static str {
    match statement {
        Statement::ReplaceInserted => include_str!("sql/replace_inserted.sql"),
        // Not ON DUPLICATE KEY: it locks the row of a holder exclusively, in the secondary index before the
        // primary one, and deadlocks with the holder's own insert or delete, which locks them in the other
        // order. Not IGNORE: a name that is too long must be refused.
        Statement::Insert => {
            "INSERT INTO {table} (unique_mutex, holder_id, create_time) VALUES ($1, $2, {from})"
        }
        Statement::DrawToken => include_str!("sql/draw_token.sql"),
        Statement::RenewInserted => {
            "UPDATE {table} SET create_time = {from} WHERE unique_mutex = $1 AND holder_id = $2 \
             AND create_time + INTERVAL $4 MICROSECOND > SYSDATE(6)"
        }
        Statement::DeleteInserted => "DELETE FROM {table} WHERE unique_mutex = $1 AND holder_id IN ($2, $3)",
        // Sets the time to itself: the column may be one with ON UPDATE CURRENT_TIMESTAMP.
        Statement::RevokeInserted => {
            "UPDATE {table} SET holder_id = $3, create_time = create_time WHERE unique_mutex = $1 AND holder_id = $2"
        }
        Statement::OwnInserted => {
            "SELECT 1 FROM {table} WHERE unique_mutex = $1 AND holder_id = $2 FOR UPDATE SKIP LOCKED"
        }
        _ => include_str!("sql/read_inserted.sql"),
    }
}
