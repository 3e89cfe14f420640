//! The telemetry of a build without the feature `telemetry`.

use std::future::Future;
use std::time::Duration;

use super::GrantKind;
use crate::engine::{Busy, Claim, Renewal, Revoke, Revoked};
use crate::{Error, LockName, Loss, Result, Token};

pub(crate) struct NoopTelemetry;

impl NoopTelemetry {
    pub(crate) fn new(_: &'static str) -> Self {
        Self
    }
    pub(crate) fn around<F: Future>(&self, _: &LockName, attempt: F) -> F {
        attempt
    }
    pub(crate) fn acquired(&self, _: &LockName, _: Duration, _: GrantKind, _: Option<Token>) {}
    pub(crate) fn acquire_failed(&self, _: &LockName, _: Duration, _: &Error) {}
    pub(crate) fn not_acquired(&self, _: &LockName, _: Duration, _: &'static str) {}
    pub(crate) fn warned(&self, _: &str) {}
    pub(crate) fn waiting(&self, _: &LockName, _: Option<&Busy>) {}
    pub(crate) fn outage(&self, _: &LockName, _: &Error) {}
    pub(crate) fn outage_over(&self, _: &LockName) {}
    pub(crate) fn cancelled(&self, _: &LockName) {}
    pub(crate) fn held(&self, _: &Claim, _: Duration) {}
    pub(crate) fn revoked(&self, _: &LockName, _: Revoke, _: &str, _: &Result<Revoked>) {}
    pub(crate) fn release_retried(&self, _: &Claim, _: &'static str) {}
}

pub(crate) fn renewed(_: &Claim, _: &'static str, _: Option<&Renewal>) {}
pub(crate) fn lost(_: &Claim, _: &'static str, _: Loss) {}
