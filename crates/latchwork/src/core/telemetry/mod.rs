//! The spans, events and metrics of the core. Without the feature `telemetry` they compile to nothing.

#[cfg(not(feature = "telemetry"))]
mod noop;
#[cfg(feature = "telemetry")]
mod recorder;

#[cfg(not(feature = "telemetry"))]
pub(crate) use self::noop::{NoopTelemetry as Telemetry, lost, renewed};
#[cfg(feature = "telemetry")]
pub(crate) use self::recorder::{TelemetryRecorder as Telemetry, lost, renewed};

/// How a task got the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GrantKind {
    /// From the engine.
    Granted,
    /// From another task of the client.
    Passed,
    /// Together with a guard of the same owner, or with other readers of the client.
    Nested,
}
