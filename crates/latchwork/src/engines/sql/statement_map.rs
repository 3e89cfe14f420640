//! A value for each of some statements.

use super::statement::Statement;

/// Values by statement, such as prepared statements. The look-up is linear, so the most frequent statements come
/// first.
#[derive(Debug, Default)]
pub(in crate::engines) struct StatementMap<T>(Vec<(Statement, T)>);

impl<T> StatementMap<T> {
    pub(in crate::engines) fn get(&self, statement: Statement) -> Option<&T> {
        self.0.iter().find(|(known, _)| *known == statement).map(|(_, value)| value)
    }
}

impl<T> FromIterator<(Statement, T)> for StatementMap<T> {
    fn from_iter<I: IntoIterator<Item = (Statement, T)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
