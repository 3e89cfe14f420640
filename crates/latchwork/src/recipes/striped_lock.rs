//! One lock cut into segments, for more to go on at once.

use super::together::first_of;
use crate::wishes::wishes;
use crate::{Client, Error, Guard, Held, Lock, Result};

/// A lock cut into segments, each a lock of its own. Made by [`Client::striped_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before a segment is acquired"]
pub struct StripedLock {
    /// The terms of each segment.
    inner: Lock,
    name: String,
    segments: u32,
}

impl Client {
    /// Describes a lock cut into `segments`, numbered from 0: the lock `name/0`, the lock `name/1`, and so on, which are
    /// ordinary locks for everybody. Everyone who uses it must name the same number.
    ///
    /// # Errors
    /// Acquiring a segment is [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there are none.
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
        let wrong = (segments == 0).then_some("0 segments hold nothing; name at least 1");
        StripedLock { inner: self.lock(&name).wrong(wrong), name, segments }
    }
}

impl StripedLock {
    wishes! { all, }

    /// Which segment a key belongs to: the 64-bit FNV-1a hash of its bytes, modulo the number of segments. The same in every
    /// version and on every machine.
    pub fn segment_of(&self, key: impl AsRef<[u8]>) -> u32 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        let hash = key.as_ref().iter().fold(OFFSET, mix);
        (hash % u64::from(self.segments.max(1))) as u32
    }

    /// One segment by its number; beyond the last, it begins again with the first.
    pub fn segment(&self, number: u32) -> Lock {
        self.inner.named(&format!("{}/{}", self.name, number % self.segments.max(1)))
    }

    /// The segment that a key belongs to, by [`segment_of`](Self::segment_of).
    pub fn for_key(&self, key: impl AsRef<[u8]>) -> Lock {
        self.segment(self.segment_of(key))
    }

    /// Whichever segment is free.
    pub fn any(&self) -> AnySegment {
        AnySegment { segments: (0..self.segments.max(1)).map(|number| self.segment(number)).collect() }
    }
}

/// Whichever segment of a [`StripedLock`] is free.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct AnySegment {
    segments: Vec<Lock>,
}

impl AnySegment {
    /// Takes a segment that is free, if there is one: its number and its guard. They are tried one after the other, from a
    /// random one on.
    ///
    /// # Guarantees
    /// As [`Lock::try_acquire`], for each segment.
    ///
    /// # Cancel safety
    /// As there.
    ///
    /// # Errors
    /// As there.
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
        let start = u128::from_ne_bytes(first.draw()) as usize % self.segments.len();
        for number in (start..self.segments.len()).chain(0..start) {
            if let Some(guard) = self.segments[number].try_acquire().await? {
                return Ok(Some((number as u32, guard)));
            }
        }
        Ok(None)
    }

    /// Takes a segment that is free; while none is, waits for all of them, as [`Lock::wait`] says, and takes the first that
    /// comes free.
    ///
    /// # Guarantees
    /// Never waits behind a busy segment while another is free.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`]. So it is with the segments that were waited for in vain: a grant that crosses with that is given
    /// back in the background.
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
        if let Some(had) = self.try_acquire().await? {
            return Ok(had);
        }
        let all = self.segments.iter().zip(wait.into_iter().cycle());
        let (number, guard) = first_of(all.map(|(lock, wait)| lock.acquire_within(wait))).await;
        Ok((number as u32, guard?))
    }

    /// Does `work` while a segment is held; it is told which. The work is dropped the moment the segment is lost.
    ///
    /// # Guarantees
    /// As [`Lock::run`].
    ///
    /// # Cancel safety
    /// As there.
    ///
    /// # Errors
    /// As there.
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

    /// Whoever changed this would let two versions of a service work on one key at once.
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
