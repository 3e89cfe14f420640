//! Captures everything that is logged.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that records every event and span of every crate, at every level.
#[derive(Clone, Default)]
pub struct LogCapture(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl LogCapture {
    /// The subscriber of this process. It is global because a keeper has a thread of its own, which a
    /// thread-local subscriber would not see.
    ///
    /// # Panics
    /// If the process has another subscriber.
    pub fn of_this_process() -> Self {
        static CAPTURE: OnceLock<LogCapture> = OnceLock::new();
        let begin = || {
            let capture = LogCapture::default();
            tracing::subscriber::set_global_default(capture.clone()).expect("no other test has one");
            capture
        };
        CAPTURE.get_or_init(begin).clone()
    }

    fn write(&self, about: &Metadata<'_>, record: impl FnOnce(&mut Fields<'_>)) {
        let mut text = self.0.lock().expect("no thread panicked while writing");
        let _ = write!(text, "{} {}", about.level(), about.target());
        record(&mut Fields(&mut text));
        text.push('\n');
    }

    /// The log so far.
    ///
    /// # Panics
    /// If a thread panicked while writing.
    pub fn read(&self) -> String {
        self.0.lock().expect("no thread panicked while writing").clone()
    }
}

impl Subscriber for LogCapture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.write(span.metadata(), |fields| span.record(fields));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.write(event.metadata(), |fields| event.record(fields));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
