//! A service that locks by plain SQL, as its authors learned it: an insert wins, a delete with its own name releases, and whatever is
//! older than an age is thrown away first.

/// A server that statements can be sent to.
pub trait SqlServer {
    /// What it answers; `Err` if it refuses.
    fn ask(&self, sql: &str) -> Result<String, String>;

    /// The time this many milliseconds ago, as this server spells it.
    fn ago(millis: u64) -> String;
}

/// The service, under one name, on one lock.
pub struct PlainSqlClient<'a, S> {
    /// Its database.
    pub server: &'a S,
    /// The table that it shares with others.
    pub table: &'a str,
    /// The lock.
    pub mutex: &'a str,
    /// Who it is.
    pub holder: &'a str,
    /// From which age on a row is over, in milliseconds.
    pub age: u64,
}

impl<S: SqlServer> PlainSqlClient<'_, S> {
    /// Whether it has the lock now.
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

    /// Gives it back.
    pub fn release(&self) {
        let Self { table, mutex, holder, .. } = self;
        self.ask(&format!("DELETE FROM {table} WHERE unique_mutex = '{mutex}' AND holder_id = '{holder}'"));
    }

    /// Who holds the lock, as the table has it.
    pub fn holder(&self) -> String {
        let Self { table, mutex, .. } = self;
        self.ask(&format!("SELECT holder_id FROM {table} WHERE unique_mutex = '{mutex}'"))
    }

    fn ask(&self, sql: &str) -> String {
        self.server.ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}
