//! Another program's client, as simple as possible: one connection, one command at a time.

use std::net::SocketAddr;

use testkit::servers::{Reply, Resp};

/// A connection of another program.
pub(crate) struct Naive(Resp);

impl Naive {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self(Resp::tcp(address).expect("the server accepts the connection"))
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> Reply {
        self.0.ask(words).expect("the server answers")
    }

    /// `SET key value NX PX ms`: true if the key did not exist.
    pub(crate) fn set_nx_px(&mut self, key: &str, value: &str, millis: u64) -> bool {
        self.ask(&["SET", key, value, "NX", "PX", &millis.to_string()]).is("OK")
    }

    pub(crate) fn setnx(&mut self, key: &str, value: &str) -> bool {
        self.ask(&["SETNX", key, value]).integer() == 1
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<String> {
        text(&self.ask(&["GET", key]))
    }

    /// Sets the key, and returns its former value.
    pub(crate) fn getset(&mut self, key: &str, value: &str) -> Option<String> {
        text(&self.ask(&["GETSET", key, value]))
    }

    /// True if the key existed.
    pub(crate) fn del(&mut self, key: &str) -> bool {
        self.ask(&["DEL", key]).integer() == 1
    }
}

fn text(reply: &Reply) -> Option<String> {
    (*reply != Reply::Nil).then(|| reply.text())
}
