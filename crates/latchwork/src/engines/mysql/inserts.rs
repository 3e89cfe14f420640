//! How MySQL and MariaDB spell the statements of `scheme=insert`. The columns keep whatever types the table gives them, and the session
//! is in the server's own time zone, as those who share the table are.

use crate::engines::sql::{LOCKS, Statement, TokenTable};

/// Only the floor of tokens and what people read: the time when the statement began will do.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
/// The table of tokens.
const TOKENS: TokenTable = TokenTable {
    suffix: "token",
    name: "unique_mutex",
    shown: "unique_mutex",
    others: [", holder_id, since, note", ", '', 0, ''"],
    has_locks: false,
    ..LOCKS
};
/// Older or younger than it is, so that it is over when the ttl is.
const FROM: &str = "SYSDATE(6) + INTERVAL ($3 - $4) MICROSECOND";

/// What makes the tables. Names are bytes: the usual collations take `a`, `A` and `a ` for the same.
pub(super) fn tables(table: &str) -> [String; 2] {
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

/// The statement with the tables of this name.
pub(super) fn text(statement: Statement, table: &str) -> String {
    if Statement::OF_SWEEP.contains(&statement) {
        return TOKENS.text(statement, table, NOW);
    }
    let which = match statement {
        Statement::Held => "l.unique_mutex = $1",
        _ => "LEFT(CAST(CONVERT(l.unique_mutex USING utf8mb4) AS BINARY), LENGTH($1)) = CAST($1 AS BINARY)",
    };
    template(statement)
        .replace("{which}", which)
        .replace("{from}", FROM)
        .replace("{now}", NOW)
        .replace("{table}", table)
}

/// What asks whether the table of this name is fit to be shared.
pub(super) fn is_fit(table: &str) -> String {
    let (schema, name) = match table.split_once('.') {
        Some((schema, name)) => (format!("'{schema}'"), name),
        None => ("DATABASE()".to_owned(), table),
    };
    include_str!("sql/is_fit.sql").replace("{schema}", &schema).replace("{name}", name)
}

fn template(statement: Statement) -> &'static str {
    match statement {
        Statement::TakeOld => include_str!("sql/take_old.sql"),
        // No ON DUPLICATE KEY: it locks the row of a holder exclusively, in the secondary index before the
        // primary one, while the holder's own insert or delete has locked the one and wants the other. No
        // IGNORE: a name that is too long must be refused.
        Statement::Put => {
            "INSERT INTO {table} (unique_mutex, holder_id, create_time) VALUES ($1, $2, {from})"
        }
        Statement::Draw => include_str!("sql/draw.sql"),
        Statement::Prolong => {
            "UPDATE {table} SET create_time = {from} WHERE unique_mutex = $1 AND holder_id = $2 \
             AND create_time + INTERVAL $4 MICROSECOND > SYSDATE(6)"
        }
        Statement::Remove => "DELETE FROM {table} WHERE unique_mutex = $1 AND holder_id IN ($2, $3)",
        // The time stays: a column may be one that changes whenever a row does.
        Statement::Mark => {
            "UPDATE {table} SET holder_id = $3, create_time = create_time WHERE unique_mutex = $1 AND holder_id = $2"
        }
        Statement::OwnInserted => {
            "SELECT 1 FROM {table} WHERE unique_mutex = $1 AND holder_id = $2 FOR UPDATE SKIP LOCKED"
        }
        _ => include_str!("sql/held.sql"),
    }
}
