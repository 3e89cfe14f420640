//! A held claim and the duty to give it back.

use std::sync::Arc;

use super::Core;
use super::hold::Hold;
use super::lease::Lease;
use super::local::{Finish, Ticket};
use crate::engine::{Claim, Released};
use crate::{Result, Token};

/// The claim is held. Dropping it releases it in the background.
pub(crate) struct Tenure {
    core: Arc<Core>,
    claim: Arc<Claim>,
    hold: Arc<Hold>,
    token: Option<Token>,
    given_back: bool,
}

impl Tenure {
    pub(crate) fn begin(ticket: Ticket, token: Option<u64>, lease: Lease) -> Self {
        let (core, claim) = ticket.into_tenure();
        let hold = Hold::new(claim.clone(), core.clock, lease);
        core.keeper.add(&hold, &core.background);
        Self { core, claim, hold, token: token.map(|token| Token::new(token, 0)), given_back: false }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn claim(&self) -> &Arc<Claim> {
        &self.claim
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.token
    }

    /// Gives the lock back and waits for the answer.
    pub(crate) async fn release(mut self) -> Result<Released> {
        let finish = self.give_back().expect("given back once");
        self.core.answer(finish.release(&self.core, self.claim.clone())).await
    }

    fn give_back(&mut self) -> Option<Finish> {
        if std::mem::replace(&mut self.given_back, true) {
            return None;
        }
        // Renewal ends before the release is sent, or a late one would look like a loss.
        self.core.keeper.remove(&self.hold);
        Some(Finish::new(self.core.clone(), self.claim.name.clone()))
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if let Some(finish) = self.give_back() {
            finish.release_in_background(self.claim.clone());
        }
    }
}
