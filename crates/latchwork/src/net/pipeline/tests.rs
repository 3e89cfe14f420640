use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::task::yield_now;

use super::*;

/// Replies are lines. A line with an exclamation mark is a pushed message.
#[derive(Clone, Default)]
struct Lines {
    pushed: Arc<Mutex<Vec<String>>>,
    retired: Arc<Mutex<u32>>,
}

impl Codec for Lines {
    type Reply = String;
    type Expected = ();
    type ParseProgress = ();

    const MAX_UNREAD: usize = 16 * 1024;

    fn decode(
        &self,
        bytes: &mut &[u8],
        (): &mut (),
        _expected: impl FnOnce() -> Option<()>,
    ) -> Result<Option<String>, String> {
        let Some(line) = next_line(bytes) else { return Ok(None) };
        let line = std::str::from_utf8(line).map_err(|_| "no text".to_owned())?;
        Ok(Some(line.to_owned()))
    }

    fn take_push(&self, line: String) -> Option<String> {
        let Some(pushed) = line.strip_prefix('!') else { return Some(line) };
        lock_ignoring_poison(&self.pushed).push(pushed.to_owned());
        None
    }

    fn on_retired(&self) {
        *lock_ignoring_poison(&self.retired) += 1;
    }
}

fn next_line<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    *bytes = &bytes[end + 1..];
    Some(line)
}

/// A reply has as many lines as its request expects. A line behind the last reply is why the connection ends.
struct CountedLines;

impl Codec for CountedLines {
    type Reply = Vec<String>;
    type Expected = usize;
    type ParseProgress = Option<(usize, Vec<String>)>;

    const MAX_UNREAD: usize = 64;
    const TERMINATE: Option<&'static [u8]> = Some(b"bye\n");

    fn decode(
        &self,
        bytes: &mut &[u8],
        progress: &mut Self::ParseProgress,
        expected: impl FnOnce() -> Option<usize>,
    ) -> Result<Option<Vec<String>>, String> {
        if progress.is_none() {
            let count = expected().ok_or_else(|| String::from_utf8_lossy(bytes).trim_end().to_owned())?;
            *progress = Some((count, Vec::new()));
        }
        let Some((count, lines)) = progress else { return Ok(None) };
        while let Some(line) = next_line(bytes) {
            lines.push(String::from_utf8_lossy(line).into_owned());
            if lines.len() == *count {
                return Ok(progress.take().map(|(_, lines)| lines));
            }
        }
        Ok(None)
    }
}

/// Every write, as it was made.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

impl AsyncWrite for Writes {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        lock_ignoring_poison(&self.0).push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn open(room: usize) -> (Pipeline<Lines>, Lines, DuplexStream) {
    let (near, far) = duplex(room);
    let lines = Lines::default();
    (Pipeline::over(lines.clone(), split(near)), lines, far)
}

#[tokio::test]
async fn an_idle_task_writes_its_request_itself_and_others_are_written_together() {
    let (reader, mut far) = duplex(64);
    let writes = Writes::default();
    let made = || std::mem::take(&mut *lock_ignoring_poison(&writes.0));
    let pipeline = Pipeline::over(Lines::default(), (reader, writes.clone()));
    yield_now().await;
    let first = pipeline.send(b"a\n", ()).expect("open");
    assert_eq!(made(), [b"a\n"], "no other task has run");
    let others = [b"b\n", b"c\n", b"d\n"].map(|request| pipeline.send(request, ()).expect("open"));
    assert!(made().is_empty(), "they are written together");
    yield_now().await;
    assert_eq!(made(), [b"b\nc\nd\n"]);
    let much = vec![b'x'; FLUSH_AT];
    let last = pipeline.send(&much, ()).expect("open");
    assert_eq!(made(), [much], "it is written at once");
    far.write_all(b"1\n2\n3\n4\n5\n").await.expect("read");
    assert_eq!(first.await.expect("answered"), "1");
    let [b, c, d] = others;
    assert_eq!((b.await, c.await, d.await), (Ok("2".to_owned()), Ok("3".to_owned()), Ok("4".to_owned())));
    assert_eq!(last.await.expect("answered"), "5");
    let alone = pipeline.send(b"e\n", ()).expect("open");
    assert_eq!(made(), [b"e\n"], "nothing is outstanding any more");
    drop(alone);
}

#[tokio::test]
async fn pushed_messages_do_not_disturb_replies_that_arrive_in_pieces() {
    let (pipeline, lines, mut far) = open(64);
    let answers = pipeline.send_all(b"a\nb\n", [(); 2]).expect("open");
    far.write_all(b"!one\n1").await.expect("read");
    yield_now().await;
    far.write_all(b"0\n!two\n20\n").await.expect("read");
    let mut heard = Vec::new();
    for answer in answers {
        heard.push(answer.await.expect("answered"));
    }
    assert_eq!(heard, ["10", "20"]);
    assert_eq!(*lock_ignoring_poison(&lines.pushed), ["one", "two"]);
}

/// A peer that takes a few bytes at a time receives everything, in order.
#[tokio::test]
async fn what_the_socket_does_not_take_is_written_later() {
    let (pipeline, _, mut far) = open(7);
    let requests: Vec<_> = (0..2_000).map(|number| format!("{number}\n")).collect();
    let answers: Vec<_> =
        requests.iter().map(|request| pipeline.send(request.as_bytes(), ()).expect("open")).collect();
    let (mut sent, expected) = (vec![0; requests.concat().len()], requests.concat());
    far.read_exact(&mut sent).await.expect("all of it");
    assert_eq!(String::from_utf8_lossy(&sent), expected);
    let echo = async { far.write_all(expected.as_bytes()).await.expect("read") };
    let hear = async {
        for (number, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.await.expect("answered"), number.to_string());
        }
    };
    tokio::join!(echo, hear);
}

/// As after a standstill: the callers have long given up when the connection continues.
#[tokio::test]
async fn abandoned_requests_are_withdrawn_unless_they_are_partly_written() {
    let (pipeline, _, mut far) = open(3);
    yield_now().await;
    drop(pipeline.send(b"begun\n", ()).expect("open"));
    drop(pipeline.send(b"given up\n", ()).expect("open"));
    let asked = pipeline.send(b"asked\n", ()).expect("open");
    let mut both = pipeline.send_all(b"c\nd\n", [(); 2]).expect("open");
    drop(pipeline.send_all(b"e\nf\n", [(); 2]).expect("open"));
    drop(both.remove(0));
    let expected = "begun\nasked\nc\nd\n";
    let mut sent = vec![0; expected.len()];
    let read = tokio::time::timeout(Duration::from_secs(5), far.read_exact(&mut sent)).await;
    assert!(read.is_ok(), "only {:?}", String::from_utf8_lossy(&sent));
    assert_eq!(String::from_utf8_lossy(&sent), expected);
    for answer in [&b"1\n"[..], b"2\n", b"3\n", b"4\n"] {
        far.write_all(answer).await.expect("read");
    }
    assert_eq!(asked.await.expect("answered"), "2");
    assert_eq!(both.remove(0).await.expect("answered"), "4");
    let after = pipeline.send(b"g\n", ()).expect("open");
    let mut sent = [0; 2];
    far.read_exact(&mut sent).await.expect("all of it");
    far.write_all(b"5\n").await.expect("read");
    assert_eq!((&sent, after.await.expect("answered").as_str()), (b"g\n", "5"));
}

#[tokio::test]
async fn abandoned_requests_to_a_hung_server_take_no_memory() {
    let (pipeline, _, _far) = open(3);
    yield_now().await;
    for _ in 0..100_000 {
        drop(pipeline.send(b"anybody there?\n", ()).expect("open"));
    }
    let out = lock_ignoring_poison(&pipeline.0.outgoing);
    let (bytes, asked) = (out.backlog.bytes().len(), out.waiting.len());
    assert!(bytes < 100_000 && asked < 10_000, "{bytes} bytes, {asked} answers");
}

#[tokio::test]
async fn waiting_requests_fail_once_when_the_connection_ends() {
    let (pipeline, lines, far) = open(64);
    let unanswered = pipeline.send(b"a\n", ()).expect("open");
    drop(far);
    let told = tokio::time::timeout(Duration::from_secs(5), unanswered).await;
    assert!(told.expect("in time").is_err());
    assert!(pipeline.is_retired() && pipeline.send(b"b\n", ()).is_none());
    assert_eq!(
        (pipeline.reason().to_string().as_str(), *lock_ignoring_poison(&lines.retired)),
        ("the connection was closed", 1)
    );
    drop(pipeline);
    assert_eq!(*lock_ignoring_poison(&lines.retired), 1);
}

#[tokio::test]
async fn a_protocol_error_closes_the_connection() {
    for (said, why) in [
        (&b"\xff\n"[..], "no text"),
        (b"1\n2\n", "a reply to nothing"),
        (&[b'x'; 40_000], "a reply of more than 16384 bytes"),
    ] {
        let (pipeline, _, mut far) = open(100_000);
        let unanswered = pipeline.send(b"a\n", ()).expect("open");
        far.write_all(said).await.expect("read");
        for _ in 0..1_000 {
            yield_now().await;
        }
        assert_eq!((pipeline.is_retired(), pipeline.reason().to_string().as_str()), (true, why));
        drop(unanswered);
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_retired_connection_answers_outstanding_requests() {
    let (pipeline, lines, mut far) = open(64);
    let asked = pipeline.send(b"a\n", ()).expect("open");
    pipeline.retire();
    assert!(pipeline.is_retired() && *lock_ignoring_poison(&lines.retired) == 1);
    far.write_all(b"1\n").await.expect("read");
    assert_eq!(asked.await.expect("answered"), "1");
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_retired_connection_sends_no_abandoned_requests() {
    let (reader, mut far) = duplex(64);
    let writes = Writes::default();
    let pipeline = Pipeline::over(Lines::default(), (reader, writes.clone()));
    let (given_up, asked) = (pipeline.send(b"a\n", ()), pipeline.send(b"b\n", ()).expect("open"));
    drop(given_up);
    pipeline.retire();
    yield_now().await;
    assert_eq!(*lock_ignoring_poison(&writes.0), [b"b\n"]);
    far.write_all(b"1\n").await.expect("read");
    assert_eq!(asked.await.expect("answered"), "1");
}

#[tokio::test]
async fn each_reply_is_parsed_as_its_request_expects_however_it_arrives() {
    let (near, mut far) = duplex(64);
    let pipeline = Pipeline::over(CountedLines, split(near));
    let two = pipeline.send(b"a\n", 2).expect("open");
    let others = pipeline.send_all(b"b\nc\n", [1, 3]).expect("open");
    for piece in ["1", "\n2", "\n3\n4\n", "5\n6\n"] {
        far.write_all(piece.as_bytes()).await.expect("read");
        yield_now().await;
    }
    assert_eq!(two.await.expect("answered"), ["1", "2"]);
    let mut replies = Vec::new();
    for reply in others {
        replies.push(reply.await.expect("answered"));
    }
    assert_eq!(replies, [vec!["3"], vec!["4", "5", "6"]]);
    far.write_all(b"the server stops\n").await.expect("read");
    while !pipeline.is_closed() {
        yield_now().await;
    }
    assert_eq!(pipeline.reason().to_string(), "the server stops");
}

/// Parts of a reply that were parsed are not kept: a reply may be longer than the buffer.
#[tokio::test]
async fn a_reply_that_is_parsed_in_parts_may_be_longer_than_what_is_left_unread() {
    let (near, mut far) = duplex(64);
    let pipeline = Pipeline::over(CountedLines, split(near));
    let reply = pipeline.send(b"a\n", 20_000).expect("open");
    far.write_all(&b"x\n".repeat(20_000)).await.expect("read");
    assert_eq!(reply.await.expect("answered").len(), 20_000);
}

#[tokio::test]
async fn kept_requests_are_sent_although_nobody_waits_for_them() {
    let (reader, _far) = duplex(64);
    let writes = Writes::default();
    let pipeline = Pipeline::over(Lines::default(), (reader, writes.clone()));
    drop(pipeline.send(b"a\n", ()));
    drop(pipeline.send_all_kept(b"b\nc\n", [(); 2]));
    drop(pipeline.send(b"d\n", ()));
    yield_now().await;
    assert_eq!(*lock_ignoring_poison(&writes.0), [b"b\nc\n"]);
}

#[tokio::test]
async fn a_dropped_connection_with_a_last_message_ends_when_all_is_answered() {
    let (near, mut far) = duplex(64);
    let pipeline = Pipeline::over(CountedLines, split(near));
    let reply = pipeline.send(b"a\n", 1).expect("open");
    drop(pipeline);
    let mut sent = [0; 6];
    far.read_exact(&mut sent).await.expect("both messages");
    assert_eq!(&sent, b"a\nbye\n");
    far.write_all(b"1\n").await.expect("read");
    assert_eq!(reply.await.expect("answered"), ["1"]);
    let end = tokio::time::timeout(Duration::from_secs(5), far.read(&mut sent)).await;
    assert!(matches!(end, Ok(Ok(0))), "{end:?}");
}

#[tokio::test]
async fn a_dropped_connection_without_requests_ends_at_once() {
    let (near, mut far) = duplex(64);
    let pipeline = Pipeline::over(CountedLines, split(near));
    yield_now().await;
    drop(pipeline);
    let mut sent = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), far.read_to_end(&mut sent)).await;
    assert!(end.is_ok() && sent == b"bye\n", "{sent:?}");
}

#[tokio::test]
async fn a_server_that_answers_with_a_tls_alert_needs_another_scheme() {
    let (pipeline, _, mut far) = open(64);
    let unanswered = pipeline.send(b"a\n", ()).expect("open");
    far.write_all(&[21, 3, 3, 0, 2, 2, 80, 0xff, b'\n']).await.expect("read");
    assert!(unanswered.await.is_err());
    assert!(pipeline.reason().to_string().contains("+tls"), "{}", pipeline.reason());
}

#[test]
fn a_connection_ends_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (pipeline, lines, _far) = runtime.block_on(async { open(64) });
    let unanswered = pipeline.send(b"a\n", ()).expect("open");
    drop(runtime);
    assert!(pipeline.is_retired() && *lock_ignoring_poison(&lines.retired) == 1);
    assert!(unanswered.blocking_recv().is_err());
}
