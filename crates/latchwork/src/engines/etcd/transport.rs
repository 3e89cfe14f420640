//! The HTTP/2 connection below tonic.

use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tonic::body::Body;
use tower_service::Service;

use crate::engine::Boxed;

/// An HTTP/2 connection as the service that tonic sends its requests through.
pub(super) struct Transport(pub(super) SendRequest<Body>);

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = TransportError;
    type Future = Boxed<Result<Response<Incoming>, TransportError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.0.poll_ready(context).map_err(TransportError)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let sending = self.0.send_request(request);
        Box::pin(async { sending.await.map_err(TransportError) })
    }
}

/// The connection broke. `Display` includes all sources, because tonic shows only the outermost error.
#[derive(Debug)]
pub(super) struct TransportError(hyper::Error);

impl TransportError {
    /// Whether the connection broke before any part of the request was sent.
    pub(super) fn is_unsent(&self) -> bool {
        self.0.is_canceled()
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection broke: {}", self.0)?;
        let mut cause = std::error::Error::source(&self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for TransportError {}
