//! The SQL that an administrator runs for a user who may not make the tables, or may not use them. It can be run
//! again: existing tables stay as they are.

use super::options::{Options, Scheme};
use super::{cells, inserts, session, statements};

/// Locks come and go, and unused names are forgotten.
const LOCKS: &str = "SELECT, INSERT, UPDATE, DELETE";
/// Nothing is ever deleted from the table of cells.
const KEPT: &str = "SELECT, INSERT, UPDATE";

/// The account that rights are granted to: `'app'@'10.0.0.%'`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Account(String);

impl Account {
    /// From what `CURRENT_USER()` says: `app@10.0.0.%`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.rsplit_once('@').map(|(user, host)| Self::new(user, host))
    }

    /// From the refusal of a database, which names the account: `... for user 'app'@'10.0.0.%' to database 'jobs'`.
    pub(super) fn refused(words: &str) -> Option<Self> {
        let (_, rest) = words.split_once("for user '")?;
        let (account, _) = rest.rsplit_once("' to database '")?;
        account.rsplit_once("'@'").map(|(user, host)| Self::new(user, host))
    }

    fn new(user: &str, host: &str) -> Self {
        let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
        Self(format!("{}@{}", quoted(user), quoted(host)))
    }
}

/// The tables that locking needs.
pub(super) fn of_locks(options: &Options, account: &Account) -> String {
    let table = &options.table;
    match options.scheme {
        Scheme::Row => {
            let names = [format!("{table}_lock"), format!("{table}_claim")];
            script(options, &statements::tables(table), LOCKS, &names, account)
        }
        Scheme::Insert => {
            let names = [table.clone(), format!("{table}_token")];
            script(options, &inserts::tables(table), LOCKS, &names, account)
        }
        Scheme::Session => of_tokens(options, account),
    }
}

/// The table of cells.
pub(super) fn of_cells(options: &Options, account: &Account) -> String {
    let table = &options.table;
    script(options, &[cells::table(table)], KEPT, &[format!("{table}_cell")], account)
}

/// The table of tokens, with `scheme=session`.
pub(super) fn of_tokens(options: &Options, account: &Account) -> String {
    let fence = format!("{}_fence", options.table);
    script(options, &[session::table(&fence)], LOCKS, &[fence], account)
}

/// For a user who may not even enter the database of the URL. `None`: the tables are in another database, and
/// rights on them do not let it in.
pub(super) fn to_enter(options: &Options, words: &str) -> Option<String> {
    let database = &options.login.database;
    let is_elsewhere = options.table.split_once('.').is_some_and(|(other, _)| other != database);
    let account = Account::refused(words).filter(|_| !is_elsewhere)?;
    let create = format!("CREATE DATABASE IF NOT EXISTS {};", quoted(database));
    Some(format!("{create}\n{}", of_locks(options, &account)))
}

fn script(options: &Options, tables: &[String], rights: &str, names: &[String], account: &Account) -> String {
    let mut lines = vec![format!("USE {};", quoted(&options.login.database))];
    lines.extend(tables.iter().map(|table| format!("{};", table.trim_end())));
    lines.extend(names.iter().map(|name| format!("GRANT {rights} ON {name} TO {};", account.0)));
    lines.join("\n")
}

/// A name as the server takes it, whatever is in it.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_from_what_the_server_says_whatever_is_in_its_name() {
        for (user, quoted) in [("app", "'app'"), ("it's", "'it''s'"), ("a@b", "'a@b'"), ("", "''")] {
            let account = Account(format!("{quoted}@'10.0.0.%'"));
            assert_eq!(Account::parse(&format!("{user}@10.0.0.%")).as_ref(), Some(&account));
            let words = format!("Access denied for user '{user}'@'10.0.0.%' to database 'jobs'");
            assert_eq!(Account::refused(&words), Some(account));
        }
        assert_eq!(Account::refused("Accès refusé"), None);
    }
}
