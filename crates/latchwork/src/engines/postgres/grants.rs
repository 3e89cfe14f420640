//! The SQL that an administrator runs for a user who may not create the tables, or may not use them. It can
//! be run again: existing tables stay as they are.

use super::options::{Options, Scheme};
use super::{cells, inserts, session, statements};

/// Rows of locks are inserted, updated and deleted.
const LOCK_RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE";
/// No row is ever deleted from the table of cells.
const CELL_RIGHTS: &str = "SELECT, INSERT, UPDATE";

/// For the tables of locks. `None`: the scheme needs no table.
pub(super) fn of_locks(options: &Options) -> Option<String> {
    let table = &options.table;
    match options.scheme {
        Scheme::Row => {
            let names = format!("{table}_lock, {table}_claim");
            Some(script(options, &statements::create_tables(table), LOCK_RIGHTS, &names))
        }
        Scheme::Insert => {
            let names = format!("{table}, {table}_token");
            Some(script(options, &inserts::create_tables(table), LOCK_RIGHTS, &names))
        }
        Scheme::Session => None,
    }
}

/// For the table of cells.
pub(super) fn of_cells(options: &Options) -> String {
    let table = &options.table;
    script(options, &cells::create_table(table), CELL_RIGHTS, &format!("{table}_cell"))
}

/// For the table of tokens of `scheme=session`.
pub(super) fn of_tokens(options: &Options) -> String {
    let fence = format!("{}_fence", options.table);
    script(options, &session::create_table(&fence), LOCK_RIGHTS, &fence)
}

/// For a user who may not connect to the database.
pub(super) fn to_connect(options: &Options) -> String {
    let (database, user) = (quoted(&options.database), quoted(&options.user));
    let connect = format!("GRANT CONNECT ON DATABASE {database} TO {user};");
    of_locks(options).into_iter().fold(connect, |connect, locks| format!("{connect}\n{locks}"))
}

fn script(options: &Options, tables: &str, rights: &str, names: &str) -> String {
    let (database, user) = (&options.database, quoted(&options.user));
    let schema = options.table.split_once('.').map_or_else(String::new, |(schema, _)| {
        format!("CREATE SCHEMA IF NOT EXISTS {schema};\nGRANT USAGE ON SCHEMA {schema} TO {user};\n")
    });
    format!("-- in the database {database:?}\n{schema}{tables}\nGRANT {rights} ON {names} TO {user};")
}

/// A quoted identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
