//! Capability flags, with the names and values of the manual ("Capabilities Flags").

/// Accepts passwords that are hashed by the protocol of 4.1.
pub(super) const CLIENT_LONG_PASSWORD: u32 = 1;
/// An OK packet counts the rows that matched, not only those that changed.
pub(super) const CLIENT_FOUND_ROWS: u32 = 1 << 1;
pub(super) const CLIENT_LONG_FLAG: u32 = 1 << 2;
pub(super) const CLIENT_CONNECT_WITH_DB: u32 = 1 << 3;
pub(super) const CLIENT_PROTOCOL_41: u32 = 1 << 9;
pub(super) const CLIENT_SSL: u32 = 1 << 11;
pub(super) const CLIENT_TRANSACTIONS: u32 = 1 << 13;
/// The manual's other name for it: `CLIENT_SECURE_CONNECTION`.
pub(super) const CLIENT_RESERVED2: u32 = 1 << 15;
pub(super) const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
/// No EOF packet follows column definitions. An OK packet with the header of an EOF packet ends the rows.
pub(super) const CLIENT_DEPRECATE_EOF: u32 = 1 << 24;

/// The capabilities that this client always requests.
pub(super) const REQUESTED: u32 = CLIENT_LONG_PASSWORD
    | CLIENT_FOUND_ROWS
    | CLIENT_LONG_FLAG
    | CLIENT_PROTOCOL_41
    | CLIENT_TRANSACTIONS
    | CLIENT_RESERVED2
    | CLIENT_PLUGIN_AUTH;
