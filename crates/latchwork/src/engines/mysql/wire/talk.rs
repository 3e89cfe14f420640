//! How MySQL and MariaDB talk.

use super::Trouble;
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
    type Trouble = Trouble;

    const FAREWELL: &'static [u8] = &[1, 0, 0, 0, 0x01];

    fn length(arrived: &[u8]) -> Result<Option<usize>, Trouble> {
        packet_length(arrived)
    }

    fn take(&mut self, arriving: &mut Arriving, packet: &[u8]) -> Result<Option<Answering<Self>>, Trouble> {
        arriving.take(&packet[4..], &mut self.columns)
    }

    fn hear(&mut self, packet: &[u8]) -> Result<(), Trouble> {
        Err(refusal(packet.get(5..).unwrap_or_default())?)
    }

    fn too_long() -> Trouble {
        Trouble::Unable("a statement of more than 16 MB".to_owned())
    }

    fn ended(why: Option<Trouble>) -> Trouble {
        match why {
            None => Trouble::Ended("the connection ended".to_owned()),
            Some(Trouble::Refused { words, .. }) => Trouble::Ended(words),
            Some(trouble) => trouble,
        }
    }
}
