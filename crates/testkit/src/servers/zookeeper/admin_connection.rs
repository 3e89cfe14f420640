//! The few requests of ZooKeeper's protocol that tests need, one after the other, each answered before the
//! next.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::jute::{JuteReader, JuteWriter};

/// The longest session that servers allow: every request is a heartbeat, and tests send no others.
const SESSION_MS: i32 = 60_000;
/// The limit for an answer of a running server.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often all servers are tried, with a pause in between: they may be electing a leader.
const ROUNDS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// The error codes of a server.
pub(super) const NO_NODE: i32 = -101;
pub(super) const NOT_EMPTY: i32 = -111;

const CLOSE: i32 = -11;
const AUTH: i32 = 100;
/// The xid of an authentication request.
const AUTH_NUMBER: i32 = -4;

/// A session through whichever server answers.
pub(super) struct AdminConnection {
    places: Vec<SocketAddr>,
    digest: Option<String>,
    session: i64,
    password: Vec<u8>,
    stream: Option<TcpStream>,
    asked: i32,
}

impl AdminConnection {
    pub(super) fn new(places: Vec<SocketAddr>, digest: Option<String>) -> Self {
        Self { places, digest, session: 0, password: vec![0; 16], stream: None, asked: 0 }
    }

    /// Sends a read request, and sends it again through another server if this one does not answer.
    ///
    /// # Panics
    /// If no server answers for long.
    pub(super) fn read(&mut self, what: i32, words: &JuteWriter) -> Result<JuteReader, i32> {
        loop {
            self.connect();
            match self.ask(what, words) {
                Ok(answer) => return answer,
                Err(_) => self.stream = None,
            }
        }
    }

    /// Sends a request that changes something, and must not be sent twice.
    ///
    /// # Panics
    /// If the server does not answer: the request may or may not have been executed.
    pub(super) fn write(&mut self, what: i32, words: &JuteWriter) -> Result<JuteReader, i32> {
        self.connect();
        self.ask(what, words).expect("a server answers")
    }

    fn ask(&mut self, what: i32, words: &JuteWriter) -> io::Result<Result<JuteReader, i32>> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.asked += 1;
        send(stream, &JuteWriter::default().int(self.asked).int(what).and(words))?;
        receive(stream)
    }

    fn connect(&mut self) {
        let mut why = String::new();
        for _ in 0..ROUNDS {
            for place in self.places.clone() {
                if self.stream.is_some() {
                    return;
                }
                self.stream = self.greet(place).inspect_err(|error| why = error.to_string()).ok();
            }
            std::thread::sleep(PAUSE);
        }
        panic!("none of {:?} is reachable: {why}", self.places);
    }

    /// Starts the session, or resumes it.
    fn greet(&mut self, place: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = open(place)?;
        send(&mut stream, &hello(self.session, &self.password))?;
        let mut answer = JuteReader::new(frame(&mut stream)?);
        let (_version, timeout) = (answer.int(), answer.int());
        assert!(timeout > 0, "the test's session expired: it sent nothing for {SESSION_MS} ms");
        (self.session, self.password) = (answer.long(), answer.bytes());
        if let Some(digest) = &self.digest {
            let auth = JuteWriter::default().int(AUTH_NUMBER).int(AUTH).int(0).text("digest").text(digest);
            send(&mut stream, &auth)?;
            receive(&mut stream)?.expect("the user is let in");
        }
        Ok(stream)
    }
}

/// Ends the session: its ephemeral nodes must not outlive the test.
impl Drop for AdminConnection {
    fn drop(&mut self) {
        let _ = self.ask(CLOSE, &JuteWriter::default());
    }
}

/// Resumes another client's session and ends it, in one write: its owner would reconnect at once.
///
/// # Errors
/// If the server does not answer.
pub(super) fn end_session(place: SocketAddr, session: i64, password: &[u8]) -> io::Result<()> {
    let mut stream = open(place)?;
    let goodbye = JuteWriter::default().int(1).int(CLOSE);
    stream.write_all(&[hello(session, password).framed(), goodbye.framed()].concat())?;
    // The server closes the connection when the session has ended.
    stream.read_to_end(&mut Vec::new()).map(drop)
}

fn open(place: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&place, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn hello(session: i64, password: &[u8]) -> JuteWriter {
    JuteWriter::default().int(0).long(0).int(SESSION_MS).long(session).bytes(password).flag(false)
}

fn send(stream: &mut TcpStream, words: &JuteWriter) -> io::Result<()> {
    stream.write_all(&words.framed())
}

fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

/// The body of a reply, or its error code.
fn receive(stream: &mut TcpStream) -> io::Result<Result<JuteReader, i32>> {
    let mut answer = JuteReader::new(frame(stream)?);
    let (_number, _transaction, refused) = (answer.int(), answer.long(), answer.int());
    Ok(if refused == 0 { Ok(answer) } else { Err(refused) })
}
