//! What moves a connection: sends what is asked, and hands out the answers in the order of the questions.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{mpsc, oneshot};

use super::Trouble;
use super::reply::{Arriving, Reply, refusal};
use super::stream::{Stream, first_packet, put_packet};
use super::{Asked, Ended};

/// A client that goes: without it, the server counts it as one that was lost.
const QUIT: u8 = 0x01;

/// A question that is on its way, and who asked.
struct Open {
    arriving: Arriving,
    is_vital: bool,
    answer: oneshot::Sender<Result<Reply, Trouble>>,
}

/// Runs until the connection ends or nobody has a handle on it. Questions follow each other without waiting for answers;
/// who asked and went away does not disturb the others, since what was begun is always sent and read in full.
pub(super) async fn drive(
    stream: Box<dyn Stream>,
    mut asked: mpsc::UnboundedReceiver<Asked>,
    ended: Arc<Ended>,
) {
    let (mut from, mut to) = split(stream);
    let (mut out, mut arrived, mut open) = (Vec::new(), Vec::with_capacity(4096), VecDeque::new());
    let (mut is_asked, mut is_flushed, mut hung_up) = (true, true, ended.is_over.subscribe());
    // Last, so that it is dropped first: who hears that there is no answer finds the connection closed.
    let _ended = EndsWhenDropped(ended.clone());
    while is_asked || !open.is_empty() || !is_flushed {
        tokio::select! {
            question = asked.recv(), if is_asked => match question {
                Some(question) => {
                    take(question, &mut out, &mut open);
                    is_flushed = false;
                }
                // Nobody hears the answers any more, but what was asked is carried out.
                None => {
                    is_asked = false;
                    put_packet(&mut out, 0, &[QUIT]);
                    is_flushed = false;
                }
            },
            written = push(&mut to, &out), if !is_flushed => match written {
                Ok(count) => {
                    out.drain(..count);
                    is_flushed = count == 0 && out.is_empty();
                }
                Err(_) => return,
            },
            read = from.read_buf(&mut arrived) => match read {
                Ok(1..) => if let Err(trouble) = deal_out(&mut arrived, &mut open) {
                    return ended.because(trouble);
                },
                _ => return,
            },
            () = async { drop(hung_up.wait_for(|is_over| *is_over).await) } => return,
        }
    }
}

/// Writes some of it; when there is nothing left, sees to it that everything leaves.
async fn push(to: &mut (impl AsyncWrite + Unpin), out: &[u8]) -> std::io::Result<usize> {
    match out {
        [] => to.flush().await.map(|()| 0),
        out => match to.write(out).await? {
            0 => Err(std::io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        },
    }
}

fn take(question: Asked, out: &mut Vec<u8>, open: &mut VecDeque<Open>) {
    put_packet(out, 0, &question.packet);
    open.push_back(Open {
        arriving: Arriving::new(question.next),
        is_vital: question.is_vital,
        answer: question.answer,
    });
}

/// Hands out what has arrived in full.
fn deal_out(arrived: &mut Vec<u8>, open: &mut VecDeque<Open>) -> Result<(), Trouble> {
    let mut read = 0;
    while let Some((packet, length)) = first_packet(&arrived[read..])? {
        let Some(first) = open.front_mut() else {
            // What nobody asked for is why it ends.
            return Err(refusal(packet.get(1..).unwrap_or_default())?);
        };
        if let Some(answer) = first.arriving.take(packet)?
            && let Some(done) = open.pop_front()
        {
            match answer {
                Err(trouble) if done.is_vital => return Err(trouble),
                answer => drop(done.answer.send(answer)),
            }
        }
        read += length;
    }
    arrived.drain(..read);
    Ok(())
}

/// However the driver ends, also with its runtime: those who wait are told.
struct EndsWhenDropped(Arc<Ended>);

impl Drop for EndsWhenDropped {
    fn drop(&mut self) {
        self.0.end();
    }
}
