//! What can be wished of a lock, for those that are made of locks.

/// Passes the wishes of [`Lock`](crate::Lock) on to `self.inner`.
macro_rules! wishes {
    ($($wish:ident: $value:ty;)*) => {$(
        #[doc = concat!("As [`Lock::", stringify!($wish), "`](crate::Lock::", stringify!($wish), ").")]
        pub fn $wish(mut self, $wish: $value) -> Self {
            self.inner = self.inner.$wish($wish);
            self
        }
    )*};
}

pub(crate) use wishes;
