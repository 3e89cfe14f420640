//! Forgets names that were not used for a day, so that the table of locks does not grow with every name ever
//! used.
//!
//! The row with the empty name, which no lock can have, stores the floor: no forgotten name had a token above
//! it, and every new row starts above it. The row also stores when the last sweep ended (`since`), and how
//! far an unfinished sweep came (`note`). Clients of older releases never list it, because no claim holds it.
//!
//! A sweep ends by raising the floor to a day ago. The next one, an hour later, forgets the names that are
//! not above that floor. So every claim that could create a forgotten name again began long after the floor
//! was committed, and sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::database::{Ask, Database, Statement, Transaction, Value};
use super::engine::Rows;
use super::entry::{bytes, int, strange};
use super::patience::repeat;
use super::work::Tidying;
use crate::clock::{self, Clock, Moment};
use crate::{ErrorKind, LockName, Result};

/// How many names are checked, and at most forgotten, in one transaction.
const PAGE: usize = 500;
/// A name that was not used for this long is forgotten, in microseconds.
const OLD: i64 = 24 * 60 * 60 * 1_000_000;
/// How often a client asks whether a sweep is due, in seconds, and the maximum random delay on top. The delay
/// keeps clients from asking all at once.
const EVERY: u64 = 60 * 60;
const JITTER: u64 = 30 * 60;

/// The time of this client's next check.
pub(super) struct Sweeps {
    begun: Moment,
    /// Seconds since `begun`.
    next: AtomicU64,
}

impl Default for Sweeps {
    fn default() -> Self {
        Self { begun: Clock::boottime().now(), next: AtomicU64::new(later(0)) }
    }
}

fn later(now: u64) -> u64 {
    now + EVERY + u64::from_be_bytes(clock::random_bytes()) % JITTER
}

/// A sweep is due.
pub(super) struct Due {
    has_floor: bool,
}

impl<D: Database> Rows<D> {
    /// Starts a sweep in the background if it is time to ask and a sweep is due. The caller waits for
    /// nothing.
    pub(super) fn sweep_at_times(&self) {
        let Sweeps { begun, next } = &*self.sweeps;
        let (now, due) = (Clock::boottime().now().since(*begun).as_secs(), next.load(Ordering::Relaxed));
        if now < due || next.compare_exchange(due, later(now), Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let rows = self.clone();
        tokio::spawn(async move {
            if let Ok(Some(due)) = rows.sweep_due().await {
                rows.sweep(due).await;
            }
        });
    }

    /// Asks whether a sweep is due, without taking a lock.
    pub(super) async fn sweep_due(&self) -> Result<Option<Due>> {
        let answer = self.run(Statement::SweepDue, []).await?;
        let due = |row: &Vec<Value>| Due { has_floor: row.get(1).is_some_and(|floor| *floor != Value::Null) };
        Ok(answer.rows.first().map(due))
    }

    /// Sweeps. Errors are dropped: no caller waits for it, and the next sweep repeats the part that failed.
    pub(super) async fn sweep(self, due: Due) {
        if !due.has_floor {
            let _ = self.make_floor().await;
            return;
        }
        // Stop when the client is gone: this task then has the only reference to the database.
        while Arc::strong_count(&self.database) > 1 {
            match self.sweep_page().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    if error.kind() == ErrorKind::Denied {
                        let _ = self.put_off().await;
                    }
                    return;
                }
            }
        }
    }

    async fn now(&self) -> Result<i64> {
        let answer = self.run(Statement::Now, []).await?;
        int(answer.rows.first().and_then(|row| row.first()).ok_or_else(strange)?)
    }

    async fn make_floor(&self) -> Result<()> {
        let now = self.now().await?;
        self.run(Statement::MakeFloor, [now - OLD, now].map(Value::Int)).await.map(drop)
    }

    /// This user has no right to delete. No client tries again for an hour.
    async fn put_off(&self) -> Result<()> {
        let now = self.now().await?;
        let values = [Value::Int(0), Value::Int(now), Value::bytes(b"")];
        self.run(Statement::WriteFloor, values).await.map(drop)
    }

    /// Forgets the old ones among the next names. False: no names are left, or another client is sweeping.
    async fn sweep_page(&self) -> Result<bool> {
        let (mut transaction, answers) =
            self.database.begin(vec![Ask::new(Statement::LockFloor, [])]).await?;
        let floor = answers.first().and_then(|answer| answer.rows.first());
        let Some([now, floor, since, from]) = floor.map(Vec::as_slice) else {
            transaction.roll_back().await;
            return Ok(false);
        };
        let (now, floor, since) = (int(now)?, int(floor)?, int(since)?);
        let page = Ask::new(Statement::Names, [from.clone(), Value::Int(PAGE as i64)]);
        let names = transaction.run(vec![page]).await?.into_iter().next().ok_or_else(strange)?.rows;
        let (mut writes, mut queues) = (Vec::new(), Vec::new());
        for row in &names {
            let [name, token, is_contended, expires] = &row[..] else { return Err(strange()) };
            match int(is_contended)? {
                _ if int(token)? > floor || int(expires)? >= now - OLD => {}
                0 => {
                    let values = [name.clone(), Value::Int(floor), Value::Int(now - OLD)];
                    writes.push(Ask::new(Statement::Forget, values));
                    writes.push(Ask::new(Statement::ForgetRevoked, [name.clone(), Value::Int(now)]));
                }
                _ => queues.push(name.clone()),
            }
        }
        let is_last = names.len() < PAGE;
        let values = match names.last().and_then(|row| row.first()) {
            Some(last) if !is_last => [Value::Int(floor), Value::Int(since), last.clone()],
            _ => [Value::Int(now - OLD), Value::Int(now), Value::bytes(b"")],
        };
        writes.push(Ask::new(Statement::WriteFloor, values));
        transaction.commit(writes).await?;
        for name in queues {
            self.tidy(&name).await?;
        }
        Ok(!is_last)
    }

    /// Removes the dead entries of a queue. Entries of dead clients keep the name in use until a client
    /// checks the queue. The next sweep forgets the name.
    async fn tidy(&self, name: &Value) -> Result<()> {
        let name = std::str::from_utf8(bytes(name)?).map_err(|_| strange())?;
        let name = LockName::new(name).map_err(|_| strange())?;
        let tidying = Tidying(&name);
        repeat(|| self.on_lock(&tidying)).await
    }
}
