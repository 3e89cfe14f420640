//! One master.
#![allow(
    clippy::disallowed_methods,
    reason = "a release is repeated on every master, after the reply of a majority"
)]

use std::sync::Arc;
use std::time::Duration;

use super::super::Redis;
use super::super::keys::Keys;
use super::super::options::Options;
use super::super::scripts::Script;
use super::super::session::Session;
use super::super::wire::Reply;
use super::send_gate::SendGate;
use crate::clock::Clock;
use crate::{Error, ErrorKind, LockName, Result};

/// The first pause before a release is sent to a master again. Each is twice as long as the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// A master, as this client sees it.
#[derive(Clone)]
pub(super) struct Master {
    session: Arc<Session>,
}

/// A request about one lock to several masters.
pub(super) struct MasterRequest {
    pub(super) script: Script,
    pub(super) name: LockName,
    pub(super) args: Vec<Vec<u8>>,
    /// Of a claim: once it is closed, the request is not sent any more.
    pub(super) gate: Option<Arc<SendGate>>,
}

impl Master {
    pub(super) fn new(options: Options) -> Self {
        Self { session: Arc::new(Session::new(options)) }
    }

    fn shown_as(&self) -> &str {
        &self.session.options.shown_as
    }

    /// The engine of this master alone.
    pub(super) fn engine(&self) -> Redis {
        Redis { session: self.session.clone() }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Connects, unless that is done.
    pub(super) async fn connect(&self) -> Result<()> {
        self.session.connection().await.map(drop)
    }

    /// Sends a request once; a release until there is a reply. A release succeeds with a majority, and no
    /// other request would delete the key on the remaining masters.
    pub(super) async fn send(&self, request: &MasterRequest) -> Result<Reply> {
        let (clock, mut pause) = (Clock::boottime(), FIRST_PAUSE);
        loop {
            match self.send_once(request).await {
                Err(error) if request.script == Script::Release && error.kind() == ErrorKind::Unreachable => {
                    clock.sleep_until(clock.now().after(pause)).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
    }

    async fn send_once(&self, request: &MasterRequest) -> Result<Reply> {
        let (connection, options) = (self.session.connection().await?, &self.session.options);
        // A new connection may find that the master has restarted.
        if request.script == Script::Claim && self.session.quarantine().is_some() {
            let message = format!("redis at {} is in quarantine", self.shown_as());
            return Err(Error::new(ErrorKind::Unreachable, message));
        }
        let keys = Keys::of(&options.prefix, &request.name)?;
        let mut command = connection.script(request.script, 2, 512);
        keys.write_holder(&mut command);
        keys.write_fence(&mut command);
        for arg in &request.args {
            command.arg(&arg[..]);
        }
        let by_digest = connection.call_by_digest(request.script, &mut command, options);
        match self.pass(request, by_digest).await? {
            Some(reply) => Ok(reply),
            // Through the gate as well: meanwhile the claim may be over, and its release have been sent.
            None => {
                let by_source = connection.call_by_source(request.script, &command, options);
                Box::pin(self.pass(request, by_source)).await
            }
        }
    }

    /// Carries out a call that is sent when it is first polled, unless the gate of the request is closed.
    async fn pass<T>(&self, request: &MasterRequest, call: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(gate) = &request.gate else { return call.await };
        let too_late =
            || Error::new(ErrorKind::Unreachable, format!("redis at {} answered too late", self.shown_as()));
        gate.pass(call).await.unwrap_or_else(|| Err(too_late()))
    }
}
