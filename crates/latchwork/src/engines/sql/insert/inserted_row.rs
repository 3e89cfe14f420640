//! A row of the shared table.

use std::time::{Duration, SystemTime};

use super::row_holder::RowHolder;
use crate::Result;
use crate::engine::{Claim, ClaimState, Foreign, Note};
use crate::engines::sql::value::{SqlValue, corrupt_table};

/// A row of the shared table, with its row in the table of tokens.
pub(super) struct InsertedRow {
    pub(super) name: String,
    /// The holder as it is written.
    pub(super) text: String,
    pub(super) holder: RowHolder,
    /// The time left in microseconds. `None`: it has no time, and never expires.
    left: Option<i64>,
    pub(super) token: Option<i64>,
    since: Option<i64>,
    note: Option<String>,
}

impl InsertedRow {
    pub(super) fn read(row: &[SqlValue]) -> Result<Self> {
        let [name, holder, left, token, since, note] = row else { return Err(corrupt_table()) };
        let optional = |value: &SqlValue| match value {
            SqlValue::Null => Ok(None),
            value => value.as_int().map(Some),
        };
        let text = holder.to_text()?;
        Ok(Self {
            name: name.to_text()?,
            holder: RowHolder::read(&text),
            text,
            left: optional(left)?,
            token: optional(token)?,
            since: optional(since)?,
            note: if *note == SqlValue::Null { None } else { Some(note.to_text()?) },
        })
    }

    pub(super) fn is_expired(&self) -> bool {
        self.left.is_some_and(|left| left <= 0)
    }

    /// Whether another program wrote it. Such a program may name itself as claims are named. But the token
    /// that is drawn with each row of Latchwork names its holder, too.
    pub(super) fn is_foreign(&self) -> bool {
        self.holder.is_foreign || self.token.is_none()
    }

    pub(super) fn expires_in(&self) -> Option<Duration> {
        self.left.map(micros_to_duration)
    }

    /// How long the claim that wrote this row is valid.
    pub(super) fn valid_for(&self, claim: &Claim) -> Result<Duration> {
        Ok(self.expires_in().ok_or_else(corrupt_table)?.min(claim.ttl))
    }

    pub(super) fn describe(&self) -> ClaimState {
        let mut state = ClaimState::new(self.holder.id);
        state.token = self.token.map(|token| token as u64);
        state.owner = self.holder.owner.clone();
        state.foreign = self.is_foreign().then(|| Box::new(Foreign::new("row", self.text.as_bytes())));
        state.note = match (&self.note, self.is_foreign()) {
            (Some(note), _) => Note::new(note),
            (None, true) => Note::new(&format!("holder_id {}", self.text)),
            (None, false) => Note::default(),
        };
        state.since = self.since.map(|since| SystemTime::UNIX_EPOCH + micros_to_duration(since));
        state.expires_in = self.expires_in();
        state
    }
}

pub(super) fn micros_to_duration(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0) as u64)
}
