//! A lock split into segments, for more concurrency.

use super::join::select_all;
use crate::forward_options::forward_options;
use crate::{Client, Error, ErrorKind, Guard, Held, Lock, Result};

/// A lock split into segments, each of which is a lock. Created by [`Client::striped_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before a segment is acquired"]
pub struct StripedLock {
    /// The options of each segment.
    inner: Lock,
    name: String,
    segments: u32,
}

impl Client {
    /// Describes a lock that is split into `segments`, numbered from 0: the ordinary locks `name/0`,
    /// `name/1`, and so on. All clients must name the same number. Nothing is sent before a segment is
    /// acquired.
    ///
    /// # Errors
    /// `acquire` fails with [`ErrorKind::Invalid`] for zero segments.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let items = client.striped_lock("items", 2); // 100 items: 1 to 50, 51 to 100
    /// let (one, _first) = items.any().acquire().await?;
    /// let (other, _second) = items.any().acquire().await?;
    /// assert_ne!(one, other);
    /// assert!(items.any().try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn striped_lock(&self, name: impl AsRef<str>, segments: u32) -> StripedLock {
        let name = name.as_ref().to_owned();
        // The first segment, because `name` alone may be no name of a lock.
        let first = self.lock(format!("{name}/0"));
        let inner = match segments {
            0 => first.reject(Error::new(ErrorKind::Invalid, "0 segments hold nothing; name at least 1")),
            _ => first,
        };
        StripedLock { inner, name, segments }
    }
}

impl StripedLock {
    forward_options! { all, }

    /// The number of the segment of a key: the 64-bit FNV-1a hash of its bytes, modulo the number of
    /// segments. It is the same in every version and on every machine.
    pub fn segment_of(&self, key: impl AsRef<[u8]>) -> u32 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        let hash = key.as_ref().iter().fold(OFFSET, mix);
        (hash % u64::from(self.segments.max(1))) as u32
    }

    /// The segment with this number, modulo the number of segments.
    pub fn segment(&self, number: u32) -> Lock {
        self.inner.named(&format!("{}/{}", self.name, number % self.segments.max(1)))
    }

    /// The segment of a key, as [`segment_of`](Self::segment_of) numbers it.
    pub fn for_key(&self, key: impl AsRef<[u8]>) -> Lock {
        self.segment(self.segment_of(key))
    }

    /// Any segment that is free.
    pub fn any(&self) -> AnySegment {
        AnySegment { segments: (0..self.segments.max(1)).map(|number| self.segment(number)).collect() }
    }
}

/// Any free segment of a [`StripedLock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct AnySegment {
    segments: Vec<Lock>,
}

impl AnySegment {
    /// Acquires a free segment, if there is one, and returns its number and its guard. The segments are tried
    /// one after the other, starting with a random one.
    ///
    /// # Guarantees
    /// As [`Lock::try_acquire`], for each segment.
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let items = client.striped_lock("items", 2);
    /// let busy = items.segment(0).acquire().await?;
    /// let (number, _guard) = items.any().try_acquire().await?.expect("the other is free");
    /// assert_eq!(number, 1);
    /// # drop(busy); Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<(u32, Guard)>> {
        let [first, ..] = &self.segments[..] else { return Ok(None) };
        let start = u128::from_ne_bytes(first.random_bytes()) as usize % self.segments.len();
        for number in (start..self.segments.len()).chain(0..start) {
            if let Some(guard) = self.segments[number].try_acquire().await? {
                return Ok(Some((number as u32, guard)));
            }
        }
        Ok(None)
    }

    /// Acquires a free segment. If none is free, waits for all of them up to the limit of [`Lock::wait`], and
    /// acquires the first that is granted.
    ///
    /// # Guarantees
    /// Never waits behind a busy segment while another is free.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`]. The claims on the other segments are withdrawn in the same way: a grant that
    /// arrives after that is released in the background.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let (number, guard) = client.striped_lock("items", 2).any().acquire().await?;
    /// println!("segment {number} is mine with token {}", guard.token()?);
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<(u32, Guard)> {
        let wait = self.segments.first().map(Lock::wait_until);
        if let Some(acquired) = self.try_acquire().await? {
            return Ok(acquired);
        }
        let all = self.segments.iter().zip(wait.into_iter().cycle());
        let (number, guard) = select_all(all.map(|(lock, wait)| lock.acquire_within(wait))).await;
        Ok((number as u32, guard?))
    }

    /// Runs `work` with the number of a segment while that segment is held. The work is dropped when the
    /// segment is lost.
    ///
    /// # Guarantees
    /// As [`Lock::run`].
    ///
    /// # Cancel safety
    /// As [`Lock::run`].
    ///
    /// # Errors
    /// As [`Lock::run`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let items = client.striped_lock("items", 2);
    /// let number = items.any().run(async |number, _held| latchwork::Result::Ok(number)).await?;
    /// assert!(number < 2);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(u32, Held) -> Result<T, E>,
    ) -> Result<T, E> {
        let (number, guard) = self.acquire().await?;
        guard.run(async |held| work(number, held).await).await
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use crate::Client;
    use crate::engines::Memory;

    /// Another mapping would let two versions of a service work on one key at once.
    #[tokio::test]
    async fn a_key_stays_in_its_segment() {
        let client = Client::new(Memory::new());
        let of = |segments, key: &str| client.striped_lock("items", segments).segment_of(key);
        // The published values of FNV-1a: 0xcbf29ce484222325, 0xaf63dc4c8601ec8c, 0x85944171f73967e8.
        let keys = ["", "a", "foobar"].map(|key| of(u32::MAX, key));
        let published = [0xcbf2_9ce4_8422_2325_u64, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8];
        assert_eq!(keys, published.map(|hash| (hash % u64::from(u32::MAX)) as u32));
        let mut counts = [0; 4];
        (0..1_000).for_each(|key| counts[of(4, &format!("order/{key}")) as usize] += 1);
        assert!(counts.iter().all(|count| (200..300).contains(count)), "{counts:?}");
    }
}
