//! Leader election, with a value that the leader publishes.

use std::time::Duration;

use super::{Cell, Leadership, Observer};
use crate::engine::{CellState, Filter, Written, text_of};
use crate::error::Subject;
use crate::forward_options::forward_options;
use crate::{Client, Error, ErrorKind, Guard, Lock, Result, Token, Wait};

/// An election. Created by [`Client::election`].
#[derive(Clone, Debug)]
#[must_use = "there is no candidate before `campaign`"]
pub struct Election {
    inner: Lock,
    cell: Cell,
    client: Client,
}

/// A present or former leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Greater than the terms of all earlier leaders. Send it with every request that must not come from a
    /// former leader.
    pub term: u64,
    /// The value that it campaigned with: an address, a name.
    pub value: Vec<u8>,
}

impl Client {
    /// Describes an election. Nothing is sent before it is used.
    ///
    /// It uses the lock and the cell of this name: the holder of the lock leads, and publishes its value in
    /// the cell. On etcd the value is in the lock's own key, as with `etcdctl elect`: both take part in one
    /// election.
    ///
    /// # Guarantees
    /// Two leaders are never both certain, and terms only rise: the term is the lock's token. A standby takes
    /// over as soon as a waiting lock would ([`Guarantees::dead_holder`](crate::Guarantees::dead_holder)). A
    /// former leader that was paused may act until it checks: the resource must refuse lower terms.
    ///
    /// # Errors
    /// Its methods fail with [`ErrorKind::Unsupported`] where [`Guarantees::cells`](crate::Guarantees::cells)
    /// is false.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let election = client.election("main");
    /// let leading = election.campaign("10.0.0.1:80").await?;
    /// let leader = election.leader().await?.expect("there is one");
    /// assert_eq!((leader.term, leader.text()?), (leading.term(), "10.0.0.1:80"));
    /// leading.resign().await?;
    /// assert_eq!(election.leader().await?, None);
    /// # Ok(()) }
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        // Never passed between tasks: every term has a token of the engine, by which `leader` identifies the
        // holder.
        let inner = self.lock(name.as_ref()).local_handoff(false);
        Election { inner, cell: self.cell(name).of_leaders(), client: self.clone() }
    }
}

impl Election {
    forward_options! {
        ttl: Duration;
        wait: impl Into<Wait>;
        stop_margin: Duration;
        on_waiting: impl Fn(&crate::Waiting) + Send + Sync + 'static;
    }

    /// Waits until this candidate leads, and publishes `value`.
    ///
    /// # Guarantees
    /// As [`Client::election`].
    ///
    /// # Cancel safety
    /// When it is dropped, the candidate does not lead: the claim leaves the queue, or the lock is released
    /// in the background.
    ///
    /// # Errors
    /// The errors of [`Lock::acquire`] and of [`Cell::set_if`], and [`ErrorKind::Lost`] if another candidate
    /// was elected before the value was published. This one does not lead then.
    ///
    /// # Examples
    /// As [`Client::election`].
    pub async fn campaign(&self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        let value = value.into();
        // A value that cannot be published is rejected before the wait.
        let (name, _) = self.cell.checked()?;
        if value.len() > Self::MAX_BYTES {
            let (length, most) = (value.len(), Self::MAX_BYTES);
            let message = format!("the value is {length} bytes long; a leader may publish at most {most}");
            return Err(self.cell.about(Error::new(ErrorKind::Invalid, message)));
        }
        let elected = async {
            if self.cell.is_of_leaders() {
                // The claim carries the value.
                let guard = self.inner.clone().tells(&value).acquire().await?;
                let term = guard.token()?.get();
                return Ok(Leadership::new(guard, term));
            }
            let guard = self.inner.acquire().await?;
            let term = self.announce(&guard, &value).await?;
            Ok(Leadership::new(guard, term))
        };
        elected.await.map_err(|error: Error| error.about_a(Subject::Election, name))
    }

    /// The longest value, in bytes.
    pub const MAX_BYTES: usize = Cell::MAX_BYTES - 32;

    /// The present leader; `None` without a leader, or if it has not published its value yet.
    ///
    /// # Guarantees
    /// The returned leader held the lock at some moment during the call.
    ///
    /// # Cancel safety
    /// Only reads, and may be dropped at any time.
    ///
    /// # Errors
    /// The errors of [`Cell::get`] and [`Client::inspect`].
    ///
    /// # Examples
    /// As [`Client::election`].
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let (name, _) = self.cell.checked()?;
        let Some(published) = self.published().await? else { return Ok(None) };
        if self.cell.is_of_leaders() {
            return Ok(Some(published)); // Read from the holder's claim.
        }
        let states = self.client.inspect(&Filter::Name(name.clone())).await;
        let states = states.map_err(|error| self.cell.about(error))?;
        let mut holders = states.iter().flat_map(|state| &state.holders);
        let leads =
            holders.any(|holder| holder.token == Some(Token::from_number(published.term).engine_token()));
        Ok(leads.then_some(published))
    }

    /// Follows the leaders.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let mut leaders = client.election("main").observe();
    /// let leading = client.election("main").campaign("one").await?;
    /// assert_eq!(leaders.next().await?.term, leading.term());
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> Observer {
        Observer::new(self.cell.watch())
    }

    async fn published(&self) -> Result<Option<Leader>> {
        Leader::of(&self.cell, self.cell.get().await?)
    }

    /// Publishes the leader in the cell. Never overwrites a later leader, because this one may have been
    /// paused.
    async fn announce(&self, guard: &Guard, value: &[u8]) -> Result<u64> {
        let term = guard.token()?.get();
        let text = [format!("{term}\n").as_bytes(), value].concat();
        loop {
            let state = self.cell.get().await?;
            let seen = state.version;
            if let Some(published) = Leader::of(&self.cell, state)?
                && published.term > term
            {
                let message = "another candidate was elected before the value was published; campaign again";
                return Err(Error::new(ErrorKind::Lost, message));
            }
            if let Written::Done(_) = self.cell.set_if(seen, text.as_slice()).await? {
                return Ok(term);
            }
        }
    }
}

impl Leader {
    /// The value as text.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is not UTF-8.
    ///
    /// # Examples
    /// As [`Client::election`].
    pub fn text(&self) -> Result<&str> {
        text_of(&self.value)
    }

    /// The leader that this state of the cell describes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the cell holds another value.
    pub(super) fn of(cell: &Cell, CellState { version, value }: CellState) -> Result<Option<Self>> {
        let Some(value) = value else { return Ok(None) };
        let leader = match u64::try_from(version.get()) {
            Ok(token) if cell.is_of_leaders() => Some(Self { term: Token::new(token, 0).get(), value }),
            _ if cell.is_of_leaders() => None,
            _ => Self::parse(&value),
        };
        let corrupt = || {
            let message =
                "the cell of this name holds something other than a leader; give the election another name";
            cell.about(Error::new(ErrorKind::Corrupt, message))
        };
        leader.ok_or_else(corrupt).map(Some)
    }

    /// Parses the term, and the value from the next line on.
    fn parse(text: &[u8]) -> Option<Self> {
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let term = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
        Some(Self { term, value: text[end + 1..].to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_that_differ_by_one_stay_different_as_text() {
        for term in [1, 1 << 53, (1 << 53) + 1, u64::MAX] {
            let text = [format!("{term}\n").as_bytes(), b"a\nb"].concat();
            assert_eq!(Leader::parse(&text), Some(Leader { term, value: b"a\nb".to_vec() }));
        }
        for bad in [&b""[..], b"7", b"x\n", b"-1\n", b"\xff\n"] {
            assert_eq!(Leader::parse(bad), None);
        }
    }
}
