//! A stream of bytes to a server, plain or encrypted.

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes to a server, plain or encrypted.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}
