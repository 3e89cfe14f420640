//! A service that locks by plain SQL, as its authors learned it: the insert that succeeds wins, a delete by
//! holder releases, and rows older than a maximum age are deleted first.

/// A server that executes SQL statements.
pub trait SqlServer {
    /// Executes a statement and returns its output.
    fn ask(&self, sql: &str) -> Result<String, String>;

    /// The expression for the time this many milliseconds ago, in this server's dialect.
    fn ago(millis: u64) -> String;
}

/// A service that uses one lock under one holder name.
pub struct PlainSqlClient<'a, S> {
    /// The database server.
    pub server: &'a S,
    /// The table that the service shares with others.
    pub table: &'a str,
    /// The lock.
    pub mutex: &'a str,
    /// The service's holder name.
    pub holder: &'a str,
    /// The age in milliseconds at which a row has expired.
    pub age: u64,
}

impl<S: SqlServer> PlainSqlClient<'_, S> {
    /// Tries to acquire the lock.
    pub fn take(&self) -> bool {
        let Self { table, mutex, holder, .. } = self;
        let old = S::ago(self.age);
        self.ask(&format!("DELETE FROM {table} WHERE unique_mutex = '{mutex}' AND create_time < {old}"));
        let now = S::ago(0);
        let insert = format!(
            "INSERT INTO {table} (unique_mutex, holder_id, create_time) VALUES ('{mutex}', '{holder}', {now})"
        );
        self.server.ask(&insert).is_ok()
    }

    /// Releases the lock.
    pub fn release(&self) {
        let Self { table, mutex, holder, .. } = self;
        self.ask(&format!("DELETE FROM {table} WHERE unique_mutex = '{mutex}' AND holder_id = '{holder}'"));
    }

    /// The holder according to the table.
    pub fn holder(&self) -> String {
        let Self { table, mutex, .. } = self;
        self.ask(&format!("SELECT holder_id FROM {table} WHERE unique_mutex = '{mutex}'"))
    }

    fn ask(&self, sql: &str) -> String {
        self.server.ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}
