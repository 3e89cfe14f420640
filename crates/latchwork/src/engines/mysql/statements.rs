//! The SQL of MySQL and MariaDB.

use super::inserts;
use super::options::Scheme;
use super::wire::MysqlParam;
use crate::engines::sql::{self, FENCE, LOCKS, SqlValue, Statement};

/// Microseconds on the database's clock. `SYSDATE` is evaluated when it is reached, after any wait for a
/// locked row. All other functions return the time at which the statement began. Every session is in UTC.
pub(super) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";

/// The SQL of a statement as it is sent, with `?` for each parameter.
pub(super) struct Text {
    pub(super) sql: String,
    /// The index of the value for each parameter.
    order: Vec<usize>,
}

impl Text {
    pub(super) fn of(statement: Statement, scheme: Scheme, table: &str) -> Self {
        let is_of_sweep = Statement::OF_SWEEP.contains(&statement);
        Self::numbered(&match scheme {
            Scheme::Insert => inserts::text(statement, table),
            Scheme::Session => FENCE.text(statement, table, NOW),
            Scheme::Row if is_of_sweep => LOCKS.text(statement, table, NOW),
            Scheme::Row => sql::text(statement, own(statement), table, NOW),
        })
    }

    /// From SQL with parameters that are numbered from `$1` on. A number may occur more than once.
    pub(super) fn numbered(text: &str) -> Self {
        let (mut sql, mut order) = (String::new(), Vec::new());
        for (index, part) in text
            .lines()
            .filter(|line| !line.starts_with("--"))
            .collect::<Vec<_>>()
            .join(" ")
            .split('$')
            .enumerate()
        {
            let digits = if index == 0 { 0 } else { part.bytes().take_while(u8::is_ascii_digit).count() };
            if let Ok(number) = part[..digits].parse::<usize>() {
                sql.push('?');
                order.push(number - 1);
            }
            sql.push_str(&part[digits..]);
        }
        Self { sql, order }
    }

    /// The values in the order of the parameters.
    pub(super) fn params<'a>(&self, values: &'a [SqlValue]) -> Vec<MysqlParam<'a>> {
        self.order.iter().map(|index| MysqlParam::from(&values[*index])).collect()
    }
}

fn own(statement: Statement) -> Option<&'static str> {
    match statement {
        Statement::ClaimUncontended => Some(include_str!("sql/claim_uncontended.sql")),
        // Not INSERT IGNORE: that leaves a shared lock on an existing row, and two transactions with one
        // deadlock.
        Statement::MakeRow => Some(
            "INSERT INTO {lock} (name, token) SELECT $1, coalesce(max(f.token), 0) FROM {lock} AS f WHERE f.name = '' \
                 ON DUPLICATE KEY UPDATE token = {lock}.token",
        ),
        // The server cannot push.
        Statement::Notify => Some("DO 0"),
        _ => None,
    }
}

/// The statements that create the tables. Names are bytes: in the usual collations `a`, `A`, `ä` and `a ` are
/// equal.
pub(super) fn create_tables(table: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {table}_lock (
  name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL, contended BIGINT NOT NULL DEFAULT 0,
  ticket BIGINT NOT NULL DEFAULT 0, id BINARY(16), expires BIGINT NOT NULL DEFAULT 0, since BIGINT NOT NULL DEFAULT 0,
  revoked BIGINT NOT NULL DEFAULT 0, note VARBINARY(1024) NOT NULL DEFAULT '', owner VARBINARY(1024)
) ENGINE=InnoDB"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {table}_claim (
  name VARBINARY(512), ticket BIGINT, id BINARY(16) NOT NULL, channel VARBINARY(64) NOT NULL, mode BIGINT NOT NULL,
  permits BIGINT NOT NULL, token BIGINT NOT NULL, hand_over BIGINT NOT NULL, expires BIGINT NOT NULL,
  since BIGINT NOT NULL, revoked BIGINT NOT NULL, note VARBINARY(1024) NOT NULL, owner VARBINARY(1024),
  PRIMARY KEY (name, ticket), UNIQUE KEY (name, id)
) ENGINE=InnoDB"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_ordered_by_their_numbers() {
        let text = Text::numbered("-- $9 is only in a comment\nSET a = $2, b = $12 WHERE c = $1 AND d = $2");
        assert_eq!(text.sql, "SET a = ?, b = ? WHERE c = ? AND d = ?");
        assert_eq!(text.order, [1, 11, 0, 1]);
    }

    #[test]
    fn every_statement_has_sql() {
        for (scheme, statements) in [
            (Scheme::Row, &Statement::ALL[..]),
            (Scheme::Insert, &Statement::OF_INSERT),
            (Scheme::Session, &[]),
        ] {
            for statement in statements.iter().chain(&Statement::OF_SWEEP) {
                let text = Text::of(*statement, scheme, "t");
                assert!(!text.sql.is_empty(), "{statement:?}");
                assert!(!text.sql.contains(['{', '$']), "{statement:?}: {}", text.sql);
            }
        }
    }
}
