//! A server's metrics, over plain HTTP.

use std::io::{Error, Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The metrics of a server, as it prints them.
pub(super) struct Figures {
    text: String,
}

impl Figures {
    /// Queries the metrics on this port of 127.0.0.1.
    pub(super) fn read(port: u16, patience: Duration) -> Result<Self> {
        Ok(Self { text: get(port, "/metrics", patience)? })
    }

    /// The sum of all lines with this name whose labels contain one of these.
    pub(super) fn sum(&self, name: &str, labels: &[&str]) -> u64 {
        let named = self.text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let lines = named.filter_map(|line| line.rsplit_once("} "));
        let ours = lines.filter(|(of, _)| labels.iter().any(|label| of.contains(label)));
        // Large numbers have an exponent.
        ours.map(|(_, value)| value.parse::<f64>().expect("a figure") as u64).sum()
    }

    /// Whether the metric with this name, which has no labels, is one.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.text.lines().any(|line| line.strip_prefix(name).is_some_and(|value| value == " 1"))
    }
}

/// The body of an answer with any status.
pub(super) fn get(port: u16, path: &str, patience: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), patience)?;
    stream.set_read_timeout(Some(patience))?;
    // In HTTP/1.0 the end of the connection is the end of the answer.
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    body.ok_or_else(|| Error::other("not an answer"))
}
