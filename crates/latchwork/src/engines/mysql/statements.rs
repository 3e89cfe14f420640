//! How MySQL and MariaDB spell the statements.

use super::inserts;
use super::options::Scheme;
use super::wire::MysqlParam;
use crate::engines::sql::{self, FENCE, LOCKS, Statement, Value};

/// Microseconds on the database's clock. `SYSDATE` is read when it is reached, behind every wait for a locked row; all others were
/// read when the statement began. Every session is in UTC.
pub(super) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";

/// A statement as it is sent: `?` for each value, and which value each of them is.
pub(super) struct Text {
    pub(super) words: String,
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

    /// From values that are numbered from `$1` on and may be used more than once.
    pub(super) fn numbered(text: &str) -> Self {
        let (mut words, mut order) = (String::new(), Vec::new());
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
                words.push('?');
                order.push(number - 1);
            }
            words.push_str(&part[digits..]);
        }
        Self { words, order }
    }

    /// The values in the order of their marks.
    pub(super) fn values<'a>(&self, values: &'a [Value]) -> Vec<MysqlParam<'a>> {
        self.order.iter().map(|index| MysqlParam::from(&values[*index])).collect()
    }
}

fn own(statement: Statement) -> Option<&'static str> {
    match statement {
        Statement::ClaimFree => Some(include_str!("sql/claim_free.sql")),
        // Not IGNORE: that would leave a shared lock on a row that is there, and two who have one wait for each other.
        Statement::MakeRow => Some(
            "INSERT INTO {lock} (name, token) SELECT $1, coalesce(max(f.token), 0) FROM {lock} AS f WHERE f.name = '' \
                 ON DUPLICATE KEY UPDATE token = {lock}.token",
        ),
        // Nobody can be told.
        Statement::Tell => Some("DO 0"),
        _ => None,
    }
}

/// What makes the tables. Names are bytes: the usual collations take `a`, `A`, `ä` and `a ` for the same.
pub(super) fn tables(table: &str) -> [String; 2] {
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
    fn values_follow_their_numbers() {
        let text = Text::numbered("-- $9 is only spoken of\nSET a = $2, b = $12 WHERE c = $1 AND d = $2");
        assert_eq!(text.words, "SET a = ?, b = ? WHERE c = ? AND d = ?");
        assert_eq!(text.order, [1, 11, 0, 1]);
    }

    #[test]
    fn every_statement_has_words() {
        for (scheme, statements) in [
            (Scheme::Row, &Statement::ALL[..]),
            (Scheme::Insert, &Statement::OF_INSERT),
            (Scheme::Session, &[]),
        ] {
            for statement in statements.iter().chain(&Statement::OF_SWEEP) {
                let text = Text::of(*statement, scheme, "t");
                assert!(!text.words.is_empty(), "{statement:?}");
                assert!(!text.words.contains(['{', '$']), "{statement:?}: {}", text.words);
            }
        }
    }
}
