//! A resource that checks fencing tokens, shared between processes.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use latchwork::Token;

/// A value in a file, with the greatest token accepted so far.
pub struct Store {
    file: File,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The value is stored.
    Accepted,
    /// A greater token was accepted before.
    Refused {
        /// The greatest token so far.
        seen: u64,
    },
}

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The greatest token accepted so far.
    pub seen: u64,
    /// The value that was stored last.
    pub value: String,
}

impl Store {
    /// Opens the store; every process opens it for itself. A new store is empty.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        Self { file: file.expect("the store opens") }
    }

    /// Stores `value`, unless a greater token than this was seen.
    pub fn write(&mut self, token: Token, value: &str) -> Written {
        self.change(|content| {
            if token.get() < content.seen {
                return Written::Refused { seen: content.seen };
            }
            *content = Content { seen: token.get(), value: value.to_owned() };
            Written::Accepted
        })
    }

    /// Stores `value` without a check, as a resource without tokens does.
    pub fn write_unchecked(&mut self, value: &str) {
        self.change(|content| value.clone_into(&mut content.value));
    }

    /// The current content.
    pub fn read(&mut self) -> Content {
        self.change(|content| content.clone())
    }

    /// Reads, changes and writes back under an exclusive `flock`.
    fn change<T>(&mut self, change: impl FnOnce(&mut Content) -> T) -> T {
        self.file.lock().expect("the store can be locked");
        let mut text = String::new();
        self.file.rewind().expect("the store can be read");
        self.file.read_to_string(&mut text).expect("the store can be read");
        let mut content = parse(&text);
        let before = content.clone();
        let answer = change(&mut content);
        if content != before {
            let text = format!("{}\n{}", content.seen, content.value);
            self.file.rewind().expect("the store can be written");
            self.file.set_len(0).expect("the store can be written");
            self.file.write_all(text.as_bytes()).expect("the store can be written");
        }
        self.file.unlock().expect("the store was locked");
        answer
    }
}

fn parse(text: &str) -> Content {
    let Some((seen, value)) = text.split_once('\n') else { return Content::default() };
    Content { seen: seen.parse().expect("a store begins with a token"), value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use latchwork::Client;
    use latchwork::engines::Memory;

    use super::*;

    async fn tokens() -> [Token; 2] {
        let client = Client::new(Memory::new());
        let first = client.lock("a").acquire().await.unwrap();
        let second = client.lock("b").acquire().await.unwrap();
        [first.token().unwrap(), second.token().unwrap()]
    }

    #[tokio::test]
    async fn a_former_holder_is_refused_and_the_holder_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = tokens().await;
        let path = folder.path().join("store");
        let (mut one, mut other) = (Store::open(&path), Store::open(&path));
        assert_eq!(one.read(), Content::default());
        assert_eq!(one.write(old, "first, and\nlong"), Written::Accepted);
        assert_eq!(one.write(old, "again"), Written::Accepted, "the holder may write as often as it likes");
        assert_eq!(other.write(new, "second"), Written::Accepted);
        assert_eq!(one.write(old, "too late"), Written::Refused { seen: new.get() });
        assert_eq!(one.read(), Content { seen: new.get(), value: "second".into() });
    }

    #[tokio::test]
    async fn without_the_check_a_former_holder_overwrites_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let [_, new] = tokens().await;
        let mut store = Store::open(&folder.path().join("store"));
        assert_eq!(store.write(new, "second"), Written::Accepted);
        store.write_unchecked("too late");
        assert_eq!(store.read(), Content { seen: new.get(), value: "too late".into() });
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let add = |_| {
            let mut store = Store::open(&path);
            std::thread::spawn(move || {
                for _ in 0..200 {
                    store.change(|content| {
                        content.value = (content.value.parse().unwrap_or(0) + 1).to_string();
                    });
                }
            })
        };
        for thread in (0..4).map(add).collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        assert_eq!(Store::open(&path).read().value, "800");
    }
}
