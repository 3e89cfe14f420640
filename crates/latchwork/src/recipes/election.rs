//! One leader at a time, whom everybody can know.

use std::time::Duration;

use super::{Cell, Leadership, Observer};
use crate::engine::{CellState, Filter, Written, text_of};
use crate::error::Subject;
use crate::forward_options::forward_options;
use crate::{Client, Error, ErrorKind, Guard, Lock, Result, Token, Wait};

/// An election. Made by [`Client::election`].
#[derive(Clone, Debug)]
#[must_use = "nobody is elected before `campaign`"]
pub struct Election {
    inner: Lock,
    cell: Cell,
    client: Client,
}

/// Who leads, or led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Greater than that of every earlier leader: send it along with whatever must not come from a former one.
    pub term: u64,
    /// What it campaigned with: an address, a name.
    pub value: Vec<u8>,
}

impl Client {
    /// Describes an election; nothing is sent before it is used.
    ///
    /// It uses the lock and the cell of this name: whoever has the lock leads, and says so in the cell. On etcd it says so in
    /// the lock's own key, as `etcdctl elect` does: both stand in one election.
    ///
    /// # Guarantees
    /// Two leaders are never both certain, and terms only rise: the term is the lock's token. A standby takes over as soon as
    /// the engine's promise for a waiting lock has it ([`Guarantees::dead_holder`](crate::Guarantees::dead_holder)). A former
    /// leader that was paused may act until it looks: let what it acts on refuse lower terms.
    ///
    /// # Errors
    /// Using it is [`ErrorKind::Unsupported`] where [`Guarantees::cells`](crate::Guarantees::cells) says no.
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
        // Never passed on: every term has a token of the engine's own, by which `leader` knows whose it is.
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

    /// Waits until this one leads, and tells everybody `value`.
    ///
    /// # Cancel safety
    /// Dropped, it does not lead: its place in the queue, or the lock, is given back in the background.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`] and of [`Cell::set_if`], and [`ErrorKind::Lost`] if another was elected before this one could
    /// tell. It does not lead then.
    ///
    /// # Examples
    /// As [`Client::election`].
    pub async fn campaign(&self, value: impl Into<Vec<u8>>) -> Result<Leadership> {
        let value = value.into();
        // What cannot be told is found out before anybody waits for it.
        let (name, _) = self.cell.checked()?;
        if value.len() > Self::MAX_BYTES {
            let (is, most) = (value.len(), Self::MAX_BYTES);
            let message = format!("the value is {is} bytes long; a leader may tell {most} at most");
            return Err(self.cell.about(Error::new(ErrorKind::Invalid, message)));
        }
        let elected = async {
            if self.cell.is_of_leaders() {
                // The claim itself tells it.
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

    /// Who leads; `None` if nobody does, or nobody has said so yet.
    ///
    /// # Guarantees
    /// Whoever it names held the lock while this was asked.
    ///
    /// # Cancel safety
    /// Reads only; may be dropped at any time.
    ///
    /// # Errors
    /// Those of [`Cell::get`] and [`Client::inspect`].
    ///
    /// # Examples
    /// As [`Client::election`].
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let (name, _) = self.cell.checked()?;
        let Some(told) = self.told().await? else { return Ok(None) };
        if self.cell.is_of_leaders() {
            return Ok(Some(told)); // Read from the holder's claim.
        }
        let states = self.client.inspect(&Filter::Name(name.clone())).await;
        let states = states.map_err(|error| self.cell.about(error))?;
        let mut holders = states.iter().flat_map(|state| &state.holders);
        let leads = holders.any(|holder| holder.token == Some(Token::from_number(told.term).engine_token()));
        Ok(leads.then_some(told))
    }

    /// Follows who leads.
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

    async fn told(&self) -> Result<Option<Leader>> {
        Leader::of(&self.cell, self.cell.get().await?)
    }

    /// Writes into the cell who leads. Never over a later leader: a former one may have been paused just here.
    async fn announce(&self, guard: &Guard, value: &[u8]) -> Result<u64> {
        let term = guard.token()?.get();
        let text = [format!("{term}\n").as_bytes(), value].concat();
        loop {
            let state = self.cell.get().await?;
            let seen = state.version;
            if let Some(told) = Leader::of(&self.cell, state)?
                && told.term > term
            {
                let message = "another was elected before this one could tell anybody; campaign again";
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

    /// What this cell says of who leads.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if something else stands there.
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

    /// The term, and in the next line the value.
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
