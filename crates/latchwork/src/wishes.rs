//! What can be wished of a lock, for those that are made of locks.

/// Passes the wishes of [`Lock`](crate::Lock) on to `self.inner`: those that every recipe has, and these.
macro_rules! wishes {
    (all, $($more:tt)*) => {
        $crate::wishes::wishes! {
            ttl: std::time::Duration;
            wait: impl Into<$crate::Wait>;
            stop_margin: std::time::Duration;
            max_hold: std::time::Duration;
            local_handoff: bool;
            pass_for: std::time::Duration;
            on_waiting: impl Fn(&$crate::Waiting) + Send + Sync + 'static;
            $($more)*
        }
    };
    ($($wish:ident: $value:ty;)*) => {$(
        #[doc = concat!("As [`Lock::", stringify!($wish), "`](crate::Lock::", stringify!($wish), ").")]
        pub fn $wish(mut self, $wish: $value) -> Self {
            self.inner = self.inner.$wish($wish);
            self
        }
    )*};
}

pub(crate) use wishes;
