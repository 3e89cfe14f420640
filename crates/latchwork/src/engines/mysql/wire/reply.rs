//! The reply to a command.

use super::com_stmt_prepare::StatementId;
use crate::engines::sql::SqlValue;

/// The reply to a command.
#[derive(Debug, Default)]
pub(in crate::engines::mysql) struct Reply {
    pub(in crate::engines::mysql) rows: ResultRows,
    /// The number of rows that matched, whether the statement changed them or not.
    pub(in crate::engines::mysql) matched: u64,
    /// The value of `LAST_INSERT_ID(...)` in this statement. Valid only if a row matched: otherwise it is
    /// that of an earlier statement.
    pub(in crate::engines::mysql) insert_id: u64,
    /// Of a statement that was prepared.
    pub(super) statement_id: StatementId,
}

/// Rows, the values of one behind those of the other.
#[derive(Debug, Default)]
pub(in crate::engines::mysql) struct ResultRows {
    pub(super) values: Vec<SqlValue>,
    /// The number of columns.
    pub(super) width: usize,
}

impl ResultRows {
    pub(in crate::engines::mysql) fn iter(&self) -> impl Iterator<Item = &[SqlValue]> {
        self.values.chunks(self.width.max(1))
    }

    pub(in crate::engines::mysql) fn first(&self) -> Option<&[SqlValue]> {
        self.iter().next()
    }

    /// A vector for each row.
    pub(in crate::engines::mysql) fn to_vecs(&self) -> Vec<Vec<SqlValue>> {
        self.iter().map(<[SqlValue]>::to_vec).collect()
    }
}
