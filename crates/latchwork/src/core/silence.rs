//! What the core tells when nobody can listen: built without the feature `telemetry`.

use std::future::Future;
use std::time::Duration;

use super::{Outcome, Patience};
use crate::engine::{Busy, Claim, Renewal, Revoke, Revoked};
use crate::{Error, LockName, Loss, Result};

pub(crate) struct Telemetry;

impl Telemetry {
    pub(crate) fn new(_: &'static str) -> Self {
        Self
    }
    pub(crate) fn around<F: Future>(&self, _: &LockName, attempt: F) -> F {
        attempt
    }
    pub(crate) fn acquired(&self, _: &LockName, _: Patience, _: Duration, _: &Result<Outcome>) {}
    pub(crate) fn warned(&self, _: &str) {}
    pub(crate) fn waiting(&self, _: &LockName, _: Option<&Busy>) {}
    pub(crate) fn outage(&self, _: &LockName, _: &Error) {}
    pub(crate) fn outage_over(&self, _: &LockName) {}
    pub(crate) fn cancelled(&self, _: &LockName) {}
    pub(crate) fn held(&self, _: &Claim, _: Duration) {}
    pub(crate) fn revoked(&self, _: &LockName, _: Revoke, _: &str, _: &Result<Revoked>) {}
    pub(crate) fn cleaned_up(&self, _: &Claim, _: &'static str) {}
}

pub(crate) fn renewed(_: &Claim, _: &'static str, _: Option<&Renewal>) {}
pub(crate) fn lost(_: &Claim, _: &'static str, _: Loss) {}
