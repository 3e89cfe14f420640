//! A value for each of some statements.

/// Values by statement, such as prepared statements. The look-up is linear, so the most frequent statements
/// come first.
#[derive(Debug)]
pub(in crate::engines) struct StatementMap<S, V>(Vec<(S, V)>);

impl<S: PartialEq, V> StatementMap<S, V> {
    pub(in crate::engines) fn get(&self, statement: S) -> Option<&V> {
        self.0.iter().find(|(known, _)| *known == statement).map(|(_, value)| value)
    }
}

impl<S, V> Default for StatementMap<S, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S, V> FromIterator<(S, V)> for StatementMap<S, V> {
    fn from_iter<I: IntoIterator<Item = (S, V)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
