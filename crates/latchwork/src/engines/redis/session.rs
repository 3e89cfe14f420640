//! What the handles of one client share: its connections, its mailbox, and what it knows of the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{self, Handle};

use super::link::Link;
use super::mailbox::Mailbox;
use super::member;
use super::options::{Options, Quarantine};
use super::server::Server;
use crate::Result;
use crate::clock::{Clock, Moment};
use crate::locked::locked;

/// Before every channel.
const CHANNELS: &str = "latchwork:";

/// One client's session with one server.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) mailbox: Arc<Mailbox>,
    /// Where the server sends what is for this client: `latchwork:` and its own digits.
    channel: String,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// One per runtime: a connection moves only when its runtime is driven, and dies with it. Few, so not a map.
    links: Vec<(runtime::Id, Place)>,
    run_id: Option<String>,
    /// Until when the server must not be asked for locks, because it may have forgotten some.
    quarantined: Option<Moment>,
    warnings: Vec<String>,
}

/// A runtime's connection, and the right to open it.
#[derive(Clone, Default)]
struct Place {
    link: Option<Arc<Link>>,
    opening: Arc<tokio::sync::Mutex<()>>,
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        let channel = [CHANNELS, &member::draw_channel()].concat();
        Self { options, mailbox: Arc::default(), channel, known: Mutex::default() }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If the server cannot be reached or used. Nothing was sent then.
    pub(super) async fn link(&self) -> Result<Arc<Link>> {
        let runtime = Handle::current().id();
        match self.working(runtime) {
            Some(link) => Ok(link),
            // Boxed, or every request would carry about what only the first needs.
            None => Box::pin(self.open(runtime)).await,
        }
    }

    async fn open(&self, runtime: runtime::Id) -> Result<Arc<Link>> {
        let opening = locked(&self.known).place(runtime).opening.clone();
        let _turn = opening.lock().await;
        if let Some(link) = self.working(runtime) {
            return Ok(link); // Another task was faster.
        }
        let (link, info) = Link::open(&self.options, &self.mailbox).await?;
        let server = Server::of(&info);
        server.check(&self.options)?;
        // Whoever waits must be heard of without a gap: the old connection goes when this one listens.
        if self.mailbox.waiting() > 0 {
            link.listen(&self.channel, &self.options).await?;
        }
        let mut known = locked(&self.known);
        known.saw(&server, &self.options);
        known.links.retain(|(id, place)| *id == runtime || place.working().is_some());
        let link = Arc::new(link);
        known.place(runtime).link = Some(link.clone());
        Ok(link)
    }

    /// The same, where the server's messages to this client arrive.
    pub(super) async fn listening_link(&self) -> Result<Arc<Link>> {
        let link = self.link().await?;
        if !link.is_listening() {
            Box::pin(link.listen(&self.channel, &self.options)).await?;
        }
        Ok(link)
    }

    /// This client's own digits in the name of its channel.
    pub(super) fn mark(&self) -> &str {
        &self.channel[CHANNELS.len()..]
    }

    fn working(&self, runtime: runtime::Id) -> Option<Arc<Link>> {
        let known = locked(&self.known);
        known.links.iter().find(|(id, _)| *id == runtime)?.1.working().cloned()
    }

    /// How long the server must not be asked for locks yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        let mut known = locked(&self.known);
        let (until, now) = (known.quarantined?, Clock::boottime().now());
        if until <= now {
            known.quarantined = None;
            return None;
        }
        Some(until.since(now))
    }

    /// What a user should know of this server.
    pub(super) fn warnings(&self) -> Vec<String> {
        locked(&self.known).warnings.clone()
    }
}

impl Place {
    fn working(&self) -> Option<&Arc<Link>> {
        self.link.as_ref().filter(|link| !link.is_closed())
    }
}

impl Known {
    fn place(&mut self, runtime: runtime::Id) -> &mut Place {
        let at = self.links.iter().position(|(id, _)| *id == runtime).unwrap_or_else(|| {
            self.links.push((runtime, Place::default()));
            self.links.len() - 1
        });
        &mut self.links[at].1
    }

    fn saw(&mut self, server: &Server, options: &Options) {
        let was_restarted = self.run_id.as_ref().is_some_and(|known| *known != server.run_id);
        self.run_id = Some(server.run_id.clone());
        self.warnings = server.warnings();
        let left = options.max_ttl.saturating_sub(server.uptime);
        let applies = match options.quarantine {
            Quarantine::Off => false,
            Quarantine::Strict => true,
            Quarantine::Auto => was_restarted && !server.is_durable,
        };
        if applies && !left.is_zero() {
            self.quarantined = Some(Clock::boottime().now().after(left));
        }
    }
}
