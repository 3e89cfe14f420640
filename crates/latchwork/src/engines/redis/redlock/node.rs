//! One master.
#![allow(clippy::disallowed_methods, reason = "a release is repeated on every master, after the answer")]

use std::sync::Arc;
use std::time::Duration;

use super::super::Redis;
use super::super::keys::Keys;
use super::super::options::Options;
use super::super::scripts::Script;
use super::super::session::Session;
use super::super::wire::Value;
use super::send_gate::SendGate;
use crate::clock::Clock;
use crate::{Error, ErrorKind, LockName, Result};

/// The first pause before a master is asked again to let go; each is twice as long as the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// A master, as this client sees it.
#[derive(Clone)]
pub(super) struct Node {
    session: Arc<Session>,
}

/// What is asked of several masters about one lock.
pub(super) struct Ask {
    pub(super) script: Script,
    pub(super) name: LockName,
    pub(super) args: Vec<Vec<u8>>,
    /// Of a claim.
    pub(super) gate: Option<Arc<SendGate>>,
}

impl Node {
    pub(super) fn new(options: Options) -> Self {
        Self { session: Arc::new(Session::new(options)) }
    }

    /// Where it is, as it may be shown.
    pub(super) fn place(&self) -> &str {
        &self.session.options.place
    }

    /// The engine of this master alone.
    pub(super) fn alone(&self) -> Redis {
        Redis { session: self.session.clone() }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Connects, if that was not done.
    pub(super) async fn reach(&self) -> Result<()> {
        self.session.connection().await.map(drop)
    }

    /// Asks once. To let go it asks until there is an answer: a majority that has let go is success, and nobody would ask the
    /// others again.
    pub(super) async fn ask(&self, ask: &Ask) -> Result<Value> {
        let (clock, mut pause) = (Clock::boottime(), FIRST_PAUSE);
        loop {
            match self.ask_once(ask).await {
                Err(error)
                    if matches!(ask.script, Script::Release) && error.kind() == ErrorKind::Unreachable =>
                {
                    clock.sleep_until(clock.now().after(pause)).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
    }

    async fn ask_once(&self, ask: &Ask) -> Result<Value> {
        let (connection, options) = (self.session.connection().await?, &self.session.options);
        // Who connects may learn that the master restarted.
        if matches!(ask.script, Script::Claim) && self.session.quarantine().is_some() {
            let message = format!("redis at {} is in quarantine", self.place());
            return Err(Error::new(ErrorKind::Unreachable, message));
        }
        let keys = Keys::of(&options.prefix, &ask.name)?;
        let mut command = connection.script(ask.script, 2, 512);
        keys.write_holder(&mut command);
        keys.write_fence(&mut command);
        for arg in &ask.args {
            command.arg(&arg[..]);
        }
        match self.pass(ask, connection.call_known(ask.script, &mut command, options)).await? {
            Some(answer) => Ok(answer),
            // It goes through the gate as well: meanwhile the claim may be over, and its release have been there.
            None => {
                let request = connection.call_spelled_out(ask.script, &command, options);
                Box::pin(self.pass(ask, request)).await
            }
        }
    }

    /// Carries out a request that is sent when it is first polled, if it is not too late for that.
    async fn pass<T>(&self, ask: &Ask, request: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(gate) = &ask.gate else { return request.await };
        let too_late =
            || Error::new(ErrorKind::Unreachable, format!("redis at {} answered too late", self.place()));
        gate.pass(request).await.unwrap_or_else(|| Err(too_late()))
    }
}
