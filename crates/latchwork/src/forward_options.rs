//! Builder methods of [`Lock`](crate::Lock), on the types that contain one.

/// Defines builder methods that forward to `self.inner`: the listed ones, and after `all` those that every
/// recipe has.
macro_rules! forward_options {
    (all, $($more:tt)*) => {
        $crate::forward_options::forward_options! {
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
    ($($option:ident: $value:ty;)*) => {$(
        #[doc = concat!("As [`Lock::", stringify!($option), "`](crate::Lock::", stringify!($option), ").")]
        pub fn $option(mut self, $option: $value) -> Self {
            self.inner = self.inner.$option($option);
            self
        }
    )*};
}

pub(crate) use forward_options;
