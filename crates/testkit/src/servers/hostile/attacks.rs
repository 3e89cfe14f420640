//! The messages of a hostile server, in the protocol of each engine.

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP3.
    Redis,
    /// The meta protocol.
    Memcached,
    /// Jute.
    ZooKeeper,
    /// MySQL and MariaDB.
    Mysql,
    /// PostgreSQL, version 3.
    Postgres,
    /// gRPC over HTTP/2.
    Etcd,
}

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostility {
    /// A length larger than any machine's memory, followed by bytes without end.
    HugeLength,
    /// A length larger than any machine's memory, and nothing more.
    HugeLengthThenSilence,
    /// A reply of valid parts that never ends.
    Endless,
    /// Deeply nested values.
    Nested,
    /// Unsolicited messages without end.
    Unasked,
    /// Random bytes.
    Garbage,
    /// Half a reply, and nothing more.
    Half,
    /// No reply at all.
    Silence,
}

impl Hostility {
    /// All kinds of attack.
    pub const ALL: [Self; 8] = [
        Self::HugeLength,
        Self::HugeLengthThenSilence,
        Self::Endless,
        Self::Nested,
        Self::Unasked,
        Self::Garbage,
        Self::Half,
        Self::Silence,
    ];

    /// Whether this attack exists in the protocol: most protocols have no nested values.
    pub fn is_known_to(self, protocol: Protocol) -> bool {
        self != Self::Nested || matches!(protocol, Protocol::Redis | Protocol::Etcd)
    }

    /// The bytes to send once in reply to this request, and the bytes to repeat after them. `is_new`: nothing
    /// was sent on the connection so far.
    pub(super) fn bytes(self, protocol: Protocol, request: &[u8], is_new: bool) -> (Vec<u8>, Vec<u8>) {
        match (self, protocol) {
            (Self::Silence, _) => (Vec::new(), Vec::new()),
            (Self::Garbage, _) => (garbage(), Vec::new()),
            (Self::HugeLengthThenSilence, protocol) => (huge(protocol, request), Vec::new()),
            (Self::HugeLength, Protocol::Etcd) => {
                (huge(protocol, request), frame(DATA, 0, stream(request), &[0; 16_384]))
            }
            (Self::HugeLength, protocol) => (huge(protocol, request), vec![b'x'; 64 * 1024]),
            (_, Protocol::Redis) => self.redis(),
            (_, Protocol::Memcached) => self.memcached(),
            (_, Protocol::ZooKeeper) => self.zookeeper(is_new),
            (_, Protocol::Mysql) => self.mysql(is_new),
            (_, Protocol::Postgres) => self.postgres(is_new),
            (_, Protocol::Etcd) => self.etcd(request),
        }
    }

    fn redis(self) -> (Vec<u8>, Vec<u8>) {
        match self {
            // This one does end: its values take many times the memory that they take on the wire.
            Self::Endless => (b"*10000000\r\n".to_vec(), b":1\r\n".repeat(16_000)),
            Self::Nested => (Vec::new(), b"*1\r\n".repeat(16_000)),
            Self::Unasked => (Vec::new(), b">3\r\n+message\r\n+nobody\r\n+nothing\r\n".repeat(1_000)),
            _ => (b"*2\r\n$5\r\nhel".to_vec(), Vec::new()),
        }
    }

    fn memcached(self) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Endless => (Vec::new(), b"STAT nothing 1\r\n".repeat(4_000)),
            Self::Unasked => (Vec::new(), b"HD c1\r\n".repeat(8_000)),
            _ => (b"VA 5 c1 t1\r\nhel".to_vec(), Vec::new()),
        }
    }

    fn zookeeper(self, is_new: bool) -> (Vec<u8>, Vec<u8>) {
        // Version, timeout, session, password.
        let opened =
            [&[0, 0, 0, 0, 0, 0, 0x0b, 0xb8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16][..], &[1; 16], &[0]]
                .concat();
        let opened = if is_new { jute(&opened) } else { Vec::new() };
        // Xid, zxid, no error; a change of a node.
        let event = [&[0xff; 12][..], &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 2, b'/', b'x']].concat();
        match self {
            Self::Unasked => (opened, jute(&event).repeat(1_000)),
            // Each event has a path of the greatest length.
            Self::Endless => {
                let path = vec![b'/'; 1 << 20];
                let long = [&event[..event.len() - 6], &(path.len() as u32).to_be_bytes(), &path].concat();
                (opened, jute(&long))
            }
            _ => (vec![0, 0, 0, 40, 0, 0, 0], Vec::new()),
        }
    }

    fn mysql(self, is_new: bool) -> (Vec<u8>, Vec<u8>) {
        if is_new && self != Self::Half {
            // Protocol, version, thread, nonce, capabilities, character set, status, more capabilities,
            // nonce, method.
            let abilities = [0xff, 0xf7, 45, 2, 0, 0xff, 0x81, 21];
            let greeting = [
                &b"\x0a8.0.0\0"[..],
                &[1, 0, 0, 0],
                &[7; 8],
                &[0],
                &abilities,
                &[0; 10],
                &[7; 12],
                &[0],
                b"mysql_native_password\0",
            ];
            // Repeats forever that the password is correct.
            return (packet(0, &greeting.concat()), packet(2, &[1, 3]).repeat(8_000));
        }
        let column = [&b"\x03def\0\0\0\x01a\0\x0c"[..], &[63, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0]].concat();
        let head = [packet(1, &[1]), packet(2, &column)].concat();
        match self {
            Self::Endless => (head, packet(3, &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0]).repeat(4_000)),
            Self::Unasked => (Vec::new(), packet(1, &[0, 0, 0, 2, 0, 0, 0]).repeat(6_000)),
            _ => (vec![40, 0, 0, 1, 0, 0], Vec::new()),
        }
    }

    fn postgres(self, is_new: bool) -> (Vec<u8>, Vec<u8>) {
        let accepted = message(b'R', &[0, 0, 0, 0]);
        match self {
            // The driver keeps all unsolicited messages until the server is ready for queries.
            Self::Endless if is_new => {
                let remark = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mnothing\0\0");
                (accepted, remark.repeat(2_000))
            }
            Self::Endless => {
                let row = message(b'D', &[0, 1, 0, 0, 0, 1, 1]);
                (message(b'2', &[]), row.repeat(6_000))
            }
            Self::Unasked => {
                let notification = message(b'A', b"\0\0\0\x01nobody\0nothing\0");
                let ready = [accepted, message(b'K', &[0; 8]), message(b'Z', b"I")].concat();
                (if is_new { ready } else { Vec::new() }, notification.repeat(2_000))
            }
            _ => (vec![b'R', 0, 0, 0, 40, 0], Vec::new()),
        }
    }

    fn etcd(self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let stream = stream(request);
        match self {
            // Empty messages, as in a server stream.
            Self::Endless => (answer(stream), frame(DATA, 0, stream, &[0; 5]).repeat(4_000)),
            // A field in a field in a field, all of them unknown.
            Self::Nested => {
                let deep = [&[0][..], &16_000_u32.to_be_bytes(), &[0x7b; 16_000]].concat();
                ([answer(stream), frame(DATA, 0, stream, &deep)].concat(), Vec::new())
            }
            Self::Unasked => (frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[7; 8]).repeat(3_000)),
            _ => ([frame(SETTINGS, 0, 0, &[]), vec![0, 0, 40, HEADERS]].concat(), Vec::new()),
        }
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// A length that is too large, at the start of a reply.
fn huge(protocol: Protocol, request: &[u8]) -> Vec<u8> {
    match protocol {
        Protocol::Redis => b"$9223372036854775800\r\n".to_vec(),
        Protocol::Memcached => b"VA 9223372036854775800 c1 t1\r\n".to_vec(),
        Protocol::ZooKeeper => vec![0x7f, 0xff, 0xff, 0xf0],
        Protocol::Mysql => vec![0xff, 0xff, 0xff, 0],
        Protocol::Postgres => vec![b'R', 0x7f, 0xff, 0xff, 0xf0],
        Protocol::Etcd => {
            let stream = stream(request);
            [answer(stream), frame(DATA, 0, stream, &[0, 0xff, 0xff, 0xff, 0xf0])].concat()
        }
    }
}

/// Pseudo-random bytes, identical in every run.
fn garbage() -> Vec<u8> {
    let mut seed = 7_u64;
    let draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    std::iter::repeat_with(draw).take(4_096).collect()
}

fn jute(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..3], &[number], payload].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The stream id of the first request in these bytes of a client. They may begin with the connection preface.
fn stream(request: &[u8]) -> u32 {
    let mut left = request.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap_or(request);
    while let Some((head, rest)) = left.split_first_chunk::<9>() {
        if head[3] == HEADERS {
            return u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        left = rest.get(length..).unwrap_or_default();
    }
    1
}

/// The start of a response: status 200 and the content type.
fn answer(stream: u32) -> Vec<u8> {
    let content = [&b"\x0f\x10\x10"[..], b"application/grpc"].concat();
    let headers = frame(HEADERS, 4, stream, &[&[0x88][..], &content].concat());
    [frame(SETTINGS, 0, 0, &[]), headers].concat()
}
