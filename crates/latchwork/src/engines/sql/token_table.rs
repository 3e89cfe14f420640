//! The tables with a row for each name that was used, and the statements of a sweep on them.

use super::statement::Statement;

/// A table that stores the newest token of each name.
pub(in crate::engines) struct TokenTable {
    /// The suffix of its name, behind the option `table`.
    pub(in crate::engines) suffix: &'static str,
    /// The column of names.
    pub(in crate::engines) name: &'static str,
    /// The value `$1` in the type of that column.
    pub(in crate::engines) value: &'static str,
    /// The column as bytes.
    pub(in crate::engines) name_as_bytes: &'static str,
    /// The other columns that need a value, and their values in the row of the floor.
    pub(in crate::engines) others: [&'static str; 2],
    /// Whether its rows are locks, with leases and queues.
    pub(in crate::engines) has_locks: bool,
}

/// The locks of `scheme=row`.
pub(in crate::engines) const LOCKS: TokenTable = TokenTable {
    suffix: "lock",
    name: "name",
    value: "$1",
    name_as_bytes: "name",
    others: ["", ""],
    has_locks: true,
};

/// The tokens of session locks.
pub(in crate::engines) const FENCE: TokenTable = TokenTable { suffix: "fence", has_locks: false, ..LOCKS };

impl TokenTable {
    /// A statement of a sweep, for the tables whose names begin with `table`. `now`: as for
    /// [`text`](super::text).
    pub(in crate::engines) fn text(&self, statement: Statement, table: &str, now: &str) -> String {
        let (is_old, is_uncontended, contended) = match self.has_locks {
            true => (" AND expires < {day_ago}", " AND contended = 0", ", contended"),
            false => ("", "", ""),
        };
        let [others, values] = self.others;
        template(statement)
            .replace("{is_old}", is_old)
            .replace("{is_uncontended}", is_uncontended)
            .replace("{contended}", contended)
            .replace("{others}", others)
            .replace("{values}", values)
            .replace("{tokens}", &format!("{table}_{}", self.suffix))
            .replace("{claim}", &format!("{table}_claim"))
            .replace("{name}", self.name)
            .replace("{value}", self.value)
            .replace("{name_as_bytes}", self.name_as_bytes)
            .replace("{day_ago}", "({now} - 86400000000)")
            .replace("{now}", now)
    }
}

fn template(statement: Statement) -> &'static str {
    match statement {
        Statement::SweepDue => include_str!("sweep_due.sql"),
        Statement::MakeFloor => "INSERT INTO {tokens} ({name}, token{others}) VALUES ('', {day_ago}{values})",
        Statement::LockFloor => {
            "SELECT token FROM {tokens} WHERE {name} = '' AND token < {day_ago} - 3600000000 \
             FOR UPDATE SKIP LOCKED"
        }
        Statement::OldNames => {
            "SELECT {name_as_bytes}{contended} FROM {tokens} WHERE {name} > {value} AND token <= $2{is_old} \
             ORDER BY {name} LIMIT $3"
        }
        // Checks every condition again on the newest version of the row: a concurrent claim may have been
        // faster.
        Statement::Forget => {
            "DELETE FROM {tokens} WHERE {name} = {value} AND token <= $2{is_old}{is_uncontended}"
        }
        Statement::RaiseFloor => "UPDATE {tokens} SET token = greatest(token, {day_ago}) WHERE {name} = ''",
        Statement::ForgetRevoked => {
            "DELETE FROM {claim} WHERE name = $1 AND ticket < 0 AND hand_over < {now}"
        }
        _ => "",
    }
}
