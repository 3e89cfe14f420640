//! How MySQL and MariaDB talk.

use super::WireError;
use super::reply::{Arriving, Column, Reply, refusal};
use super::stream::packet_length;
use crate::engines::sql::{Answering, Dialect};

/// What has to be known between two packets of an answer.
#[derive(Default)]
pub(super) struct Talk {
    columns: Vec<Column>,
}

impl Dialect for Talk {
    type Arriving = Arriving;
    type Reply = Reply;
    type WireError = WireError;

    const FAREWELL: &'static [u8] = &[1, 0, 0, 0, 0x01];

    fn length(arrived: &[u8]) -> Result<Option<usize>, WireError> {
        packet_length(arrived)
    }

    fn take(&mut self, arriving: &mut Arriving, packet: &[u8]) -> Result<Option<Answering<Self>>, WireError> {
        arriving.take(&packet[4..], &mut self.columns)
    }

    fn hear(&mut self, packet: &[u8]) -> Result<(), WireError> {
        Err(refusal(packet.get(5..).unwrap_or_default())?)
    }

    fn too_long() -> WireError {
        WireError::Unable("a statement of more than 16 MB".to_owned())
    }

    fn ended(why: Option<WireError>) -> WireError {
        match why {
            None => WireError::Ended("the connection ended".to_owned()),
            Some(WireError::Refused { words, .. }) => WireError::Ended(words),
            Some(wire_error) => wire_error,
        }
    }
}
