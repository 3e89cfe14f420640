//! A minimal client for the RESP2 protocol: one connection, one request at a time, no retry.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The limit for an answer of a healthy server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`.
    Simple(String),
    /// `-ERR ...`, with its code.
    Error(String),
    /// `:1`.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// No value, or no array.
    Nil,
    /// Several replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// Whether the reply is this line: `OK`, `PONG`.
    pub fn is(&self, line: &str) -> bool {
        matches!(self, Self::Simple(is) if is == line)
    }

    /// A line or bytes, as text.
    ///
    /// # Panics
    /// If it is something else, such as an error.
    pub fn text(&self) -> String {
        match self {
            Self::Simple(line) => line.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a text: {other:?}"),
        }
    }

    /// A number.
    ///
    /// # Panics
    /// If it is something else, such as an error.
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// Several replies.
    ///
    /// # Panics
    /// If it is something else, such as an error.
    pub fn array(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            other => panic!("not an array: {other:?}"),
        }
    }
}

/// One connection.
pub struct Resp {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
}

impl Resp {
    /// Connects over TCP.
    ///
    /// # Errors
    /// If the connection is refused.
    pub fn tcp(address: SocketAddr) -> Result<Self> {
        Self::tcp_within(address, PATIENCE)
    }

    /// Connects over TCP, with this limit for replies.
    ///
    /// # Errors
    /// If the connection is refused.
    pub fn tcp_within(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self::over(stream.try_clone()?, stream))
    }

    /// Connects over a Unix socket.
    ///
    /// # Errors
    /// If the connection is refused.
    pub fn unix(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream.try_clone()?, stream))
    }

    fn over(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        let reader: Box<dyn Read + Send> = Box::new(reader);
        Self { reader: BufReader::new(reader), writer: Box::new(writer) }
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// If the connection breaks or the reply takes too long; [`ErrorKind::UnexpectedEof`] if the peer closed
    /// the connection.
    pub fn ask(&mut self, request: &[&str]) -> Result<Reply> {
        self.send(request)?;
        self.reply()
    }

    /// Sends a request in one piece.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, request: &[&str]) -> Result<()> {
        let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
        for word in request {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.writer.write_all(&bytes)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// As [`Resp::ask`].
    pub fn reply(&mut self) -> Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| nonsense(&line))?;
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number(rest)?),
            "$" => match usize::try_from(number(rest)?) {
                Ok(length) => Reply::Bulk(self.bytes(length)?),
                Err(_) => Reply::Nil,
            },
            "*" => match usize::try_from(number(rest)?) {
                Ok(length) => Reply::Array((0..length).map(|_| self.reply()).collect::<Result<_>>()?),
                Err(_) => Reply::Nil,
            },
            _ => return Err(nonsense(&line)),
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn number(digits: &str) -> Result<i64> {
    digits.parse().map_err(|_| nonsense(digits))
}

fn nonsense(line: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("not RESP2: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Result<Reply> {
        Resp::over(bytes, std::io::sink()).reply()
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let array = read(b"*5\r\n+OK\r\n:-2\r\n$4\r\na\r\nb\r\n$-1\r\n*1\r\n-ERR no\r\n").unwrap();
        let expected = [
            Reply::Simple("OK".into()),
            Reply::Integer(-2),
            Reply::Bulk(b"a\r\nb".into()),
            Reply::Nil,
            Reply::Array(vec![Reply::Error("ERR no".into())]),
        ];
        assert_eq!(array.array(), expected);
        assert_eq!(array.array()[2].text(), "a\r\nb");
    }

    #[test]
    fn half_a_reply_is_an_error() {
        for half in [&b""[..], b"+O", b"$4\r\nab", b"*2\r\n+OK\r\n"] {
            assert_eq!(read(half).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{half:?}");
        }
        assert_eq!(read(b"what\r\n").unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(b"\r\n").unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
