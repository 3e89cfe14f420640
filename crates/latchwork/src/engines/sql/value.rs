//! A value of a statement or of a row.

use crate::engine::ClaimId;
use crate::{Error, ErrorKind, Result};

/// A value of a statement or of a row: a number, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum SqlValue {
    Null,
    Int(i64),
    Bytes(Vec<u8>),
    /// For text columns of tables that other programs made. The server returns it as bytes.
    Text(String),
}

impl SqlValue {
    pub(in crate::engines) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }

    pub(super) fn id(id: ClaimId) -> Self {
        Self::bytes(id.as_bytes())
    }

    pub(super) fn as_int(&self) -> Result<i64> {
        match self {
            Self::Int(number) => Ok(*number),
            _ => Err(corrupt_table()),
        }
    }

    pub(super) fn as_bytes(&self) -> Result<&[u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(corrupt_table()),
        }
    }

    pub(super) fn to_text(&self) -> Result<String> {
        String::from_utf8(self.as_bytes()?.to_vec()).map_err(|_| corrupt_table())
    }

    /// The length of the bytes or the text in it.
    #[cfg(feature = "mysql")]
    pub(in crate::engines) fn length(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
        }
    }
}

/// The error for a row that does not have the expected columns or types.
pub(super) fn corrupt_table() -> Error {
    Error::new(ErrorKind::Corrupt, "the lock tables hold something that Latchwork did not write")
}
