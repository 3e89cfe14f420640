//! The SQL that an administrator runs for a user who may not create the tables, or may not use them. It can
//! be run again: existing tables stay as they are.

use super::options::{Options, Scheme};
use super::{cells, inserts, session, statements};

/// Rows of locks are inserted, updated and deleted.
const LOCK_RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE";
/// No row is ever deleted from the table of cells.
const CELL_RIGHTS: &str = "SELECT, INSERT, UPDATE";

/// The account that rights are granted to: `'app'@'10.0.0.%'`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Account(String);

impl Account {
    /// From the result of `CURRENT_USER()`: `app@10.0.0.%`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.rsplit_once('@').map(|(user, host)| Self::new(user, host))
    }

    /// From an "Access denied" message, which names the account: `... for user 'app'@'10.0.0.%' to database
    /// 'jobs'`.
    pub(super) fn refused(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once("for user '")?;
        let (account, _) = rest.rsplit_once("' to database '")?;
        account.rsplit_once("'@'").map(|(user, host)| Self::new(user, host))
    }

    fn new(user: &str, host: &str) -> Self {
        let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
        Self(format!("{}@{}", quoted(user), quoted(host)))
    }
}

/// For the tables of locks.
pub(super) fn of_locks(options: &Options, account: &Account) -> String {
    let table = &options.table;
    match options.scheme {
        Scheme::Row => {
            let names = [format!("{table}_lock"), format!("{table}_claim")];
            script(options, &statements::create_tables(table), LOCK_RIGHTS, &names, account)
        }
        Scheme::Insert => {
            let names = [table.clone(), format!("{table}_token")];
            script(options, &inserts::create_tables(table), LOCK_RIGHTS, &names, account)
        }
        Scheme::Session => of_tokens(options, account),
    }
}

/// For the table of cells.
pub(super) fn of_cells(options: &Options, account: &Account) -> String {
    let table = &options.table;
    script(options, &[cells::create_table(table)], CELL_RIGHTS, &[format!("{table}_cell")], account)
}

/// For the table of tokens of `scheme=session`.
pub(super) fn of_tokens(options: &Options, account: &Account) -> String {
    let fence = format!("{}_fence", options.table);
    script(options, &[session::create_table(&fence)], LOCK_RIGHTS, &[fence], account)
}

/// For a user who may not use the database of the URL. `None`: the tables are in another database, and rights
/// on them do not help.
pub(super) fn to_enter(options: &Options, message: &str) -> Option<String> {
    let database = &options.login.database;
    let is_elsewhere = options.table.split_once('.').is_some_and(|(other, _)| other != database);
    let account = Account::refused(message).filter(|_| !is_elsewhere)?;
    let create = format!("CREATE DATABASE IF NOT EXISTS {};", quoted(database));
    Some(format!("{create}\n{}", of_locks(options, &account)))
}

fn script(options: &Options, tables: &[String], rights: &str, names: &[String], account: &Account) -> String {
    let mut lines = vec![format!("USE {};", quoted(&options.login.database))];
    lines.extend(tables.iter().map(|table| format!("{};", table.trim_end())));
    lines.extend(names.iter().map(|name| format!("GRANT {rights} ON {name} TO {};", account.0)));
    lines.join("\n")
}

/// A quoted identifier.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_with_special_characters_are_parsed_and_quoted() {
        for (user, quoted) in [("app", "'app'"), ("it's", "'it''s'"), ("a@b", "'a@b'"), ("", "''")] {
            let account = Account(format!("{quoted}@'10.0.0.%'"));
            assert_eq!(Account::parse(&format!("{user}@10.0.0.%")).as_ref(), Some(&account));
            let message = format!("Access denied for user '{user}'@'10.0.0.%' to database 'jobs'");
            assert_eq!(Account::refused(&message), Some(account));
        }
        assert_eq!(Account::refused("Accès refusé"), None);
    }
}
