//! A connection to one member.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::close_observer::CloseObserver;
use super::close_signal::CloseSignal;
use super::endpoint::Endpoint;
use super::errors;
use super::options::Options;
use super::transport::Transport;
use super::watch_stream::WatchStream;
use super::wire::{
    AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, STATUS, StatusRequest, StatusResponse,
};
use crate::engine::Boxed;
use crate::net::abandon::AbandonGuard;
use crate::net::deadline;
use crate::net::dial::dial;
use crate::net::per_runtime::Closable;
use crate::net::tls::handshake;
use crate::poison::lock_ignoring_poison;
use crate::{Error, Result};

/// The longest message that is read. The client allocates by the length before the message has arrived.
const MAX_MESSAGE: usize = 64 << 20;

/// A connection to one member. Once closed it stays closed; its users open another.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
    /// The member's address, for messages.
    pub(super) shown_as: String,
    /// The version of the member. Empty if the member does not tell it to this user.
    pub(super) version: String,
    closed: Arc<CloseSignal>,
    /// Whether the cluster has other members to send a request to.
    has_other_members: bool,
    /// The authentication token, if the URL has a user.
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// Held by the task that renews a lease for all claims over this connection.
    lease_renewal: tokio::sync::Mutex<()>,
    pub(super) watch_stream: WatchStream,
}

impl Closable for Connection {
    fn is_closed(&self) -> bool {
        self.closed.is_set() || self.sender.is_closed()
    }
}

impl Connection {
    /// Connects to a member, checks its status, and authenticates.
    ///
    /// # Errors
    /// If the member cannot be reached, is not trusted, refuses the user, or has lost the majority.
    pub(super) async fn open(options: &Options, endpoint: &Endpoint, timeout: Duration) -> Result<Self> {
        let mut connection = with_timeout(timeout, endpoint, Self::connect(options, endpoint)).await?;
        let authentication =
            async { connection.authenticate(options).await.map_err(|status| connection.error(&status)) };
        with_timeout(deadline::ETCD_AUTHENTICATE, endpoint, authentication).await?;
        if connection.version.is_empty() && options.user.is_some() {
            with_timeout(timeout, endpoint, connection.check_status(options)).await?;
        }
        Ok(connection)
    }

    async fn connect(options: &Options, endpoint: &Endpoint) -> Result<Self> {
        let shown_as = endpoint.shown_as();
        let connecting = dial(&endpoint.host, endpoint.port);
        let stream = connecting.await.map_err(|error| errors::unreachable(&shown_as, error))?;
        let closed = Arc::<CloseSignal>::default();
        let (sender, scheme) = match &options.tls {
            None => (http2_handshake(stream, &closed, &shown_as).await?, "http"),
            Some(tls) => {
                let stream = handshake(tls, endpoint.tls_name.clone(), stream).await;
                let stream = stream.map_err(|error| error.error(format_args!("etcd at {shown_as}")))?;
                (http2_handshake(stream, &closed, &shown_as).await?, "https")
            }
        };
        let origin = format!("{scheme}://{shown_as}")
            .parse()
            .map_err(|_| errors::unreachable(&shown_as, "no such host"))?;
        let watch_stream = WatchStream::new(closed.clone());
        let mut connection = Self {
            sender,
            origin,
            shown_as,
            version: String::new(),
            closed,
            has_other_members: options.endpoints.len() > 1,
            token: Mutex::default(),
            lease_renewal: tokio::sync::Mutex::default(),
            watch_stream,
        };
        connection.check_status(options).await?;
        Ok(connection)
    }

    /// Reads the version, and checks that the cluster has a leader. From 3.5.28 on a member answers this only
    /// to an authenticated user, and some versions only to the role `root`. Authentication needs a leader as
    /// well, so the check loses nothing without this answer.
    async fn check_status(&mut self, options: &Options) -> Result<()> {
        let is_authenticated = lock_ignoring_poison(&self.token).is_some();
        let status: StatusResponse = match self.try_call(options, STATUS, StatusRequest {}).await {
            Ok(status) => status,
            Err(status) if errors::is_permission_denied(&status) => return Ok(()),
            Err(status)
                if errors::is_user_missing(&status) && options.user.is_some() && !is_authenticated =>
            {
                return Ok(());
            }
            Err(status) => {
                let tls_failure = self.closed.tls_failure();
                return Err(errors::connect_failed(
                    &status,
                    &self.shown_as,
                    options.tls.is_some(),
                    tls_failure,
                ));
            }
        };
        if status.leader == 0 {
            return Err(errors::unreachable(
                &self.shown_as,
                "no leader; is a majority of its members running?",
            ));
        }
        self.version = status.version;
        Ok(())
    }

    /// Gets an authentication token, if the URL has a user.
    async fn authenticate(&self, options: &Options) -> Result<(), Status> {
        let Some(user) = &options.user else { return Ok(()) };
        let request = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let response: AuthenticateResponse = self.send_unary(AUTHENTICATE, request).await?;
        *lock_ignoring_poison(&self.token) = response.token.parse().ok();
        Ok(())
    }

    /// Sends a request, and waits for the response.
    pub(super) async fn call<Q, A>(&self, options: &Options, method: &'static str, request: Q) -> Result<A>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.try_call(options, method, request).await.map_err(|status| self.error(&status))
    }

    /// Like [`Connection::call`], for callers that handle some statuses themselves.
    pub(super) async fn try_call<Q, A>(
        &self,
        options: &Options,
        method: &'static str,
        request: Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.try_call_within(deadline::ETCD_REPLY_WITH_OTHERS, options, method, request).await
    }

    /// Like [`Connection::try_call`], with a shorter time limit.
    pub(super) async fn try_call_within<Q, A>(
        &self,
        timeout: Duration,
        options: &Options,
        method: &'static str,
        request: Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let calling = async {
            match self.send_unary(method, request.clone()).await {
                // The member forgets a token that was not used for minutes. Nothing was done.
                Err(status) if errors::is_token_invalid(&status) && options.user.is_some() => {
                    Box::pin(self.authenticate(options)).await?;
                    self.send_unary(method, request).await
                }
                response => response,
            }
        };
        self.reply_within(timeout, calling).await
    }

    /// Waits for the response to a request. With other members in the cluster, the wait is limited: this
    /// member may be cut off without a closed connection, or wait for a majority that it does not know to be
    /// lost.
    pub(super) async fn reply_within<A>(
        &self,
        timeout: Duration,
        calling: impl Future<Output = Result<A, Status>>,
    ) -> Result<A, Status> {
        if !self.has_other_members {
            return self.retire_if_abandoned(calling).await;
        }
        let response = tokio::time::timeout(timeout, self.retire_if_abandoned(calling)).await;
        response.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(format!("no answer within {timeout:?}; is it hung, or cut off?")))
        })
    }

    /// Waits for other tasks that renew a lease over this connection. It does not wait for tasks of another
    /// connection, nor for a member that has left the requests of other tasks unanswered.
    pub(super) async fn lock_lease_renewal(&self) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        let guard = self.lease_renewal.lock().await;
        match self.is_closed() {
            true => Err(errors::unreachable(
                &self.shown_as,
                "it left other requests unanswered; is it hung, or cut off?",
            )),
            false => Ok(guard),
        }
    }

    async fn send_unary<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (request, codec) = (self.with_metadata(request), ProstCodec::default());
        let response = self.grpc().unary(request, PathAndQuery::from_static(method), codec).await;
        response.map(tonic::Response::into_inner)
    }

    /// Opens a stream in both directions. The server may not respond before it has received the first
    /// request.
    pub(super) fn open_stream<Q, A>(
        &self,
        method: &'static str,
        requests: impl tokio_stream::Stream<Item = Q> + Send + 'static,
    ) -> Boxed<Result<Streaming<A>, Status>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (mut grpc, requests) = (self.grpc(), self.with_metadata(requests));
        Box::pin(async move {
            let codec = ProstCodec::default();
            let response = grpc.streaming(requests, PathAndQuery::from_static(method), codec).await;
            response.map(tonic::Response::into_inner)
        })
    }

    /// Waits for a reply. Dropped before the reply came, this closes the connection: the core waited long
    /// enough, and the next request goes to another member.
    pub(super) async fn retire_if_abandoned<T>(&self, calling: impl Future<Output = T>) -> T {
        let guard = AbandonGuard::retire(|| self.closed.set());
        let response = calling.await;
        guard.answered();
        response
    }

    fn grpc(&self) -> Grpc<Transport> {
        // A page of claims may be as large as the values that leaders proclaim. The requests limit the number
        // of keys.
        let grpc = Grpc::with_origin(Transport(self.sender.clone()), self.origin.clone());
        grpc.max_decoding_message_size(MAX_MESSAGE)
    }

    fn with_metadata<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        // A member that has lost the majority then fails requests at once, and ends streams that would stay
        // silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &*lock_ignoring_poison(&self.token) {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// The error for a failed request. If the member is at fault, the connection is closed, and the next
    /// request goes to another member.
    pub(super) fn error(&self, status: &Status) -> Error {
        if errors::is_member_failure(status) {
            self.closed.set();
        }
        errors::request_failed(status, &self.shown_as)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.closed.set();
    }
}

async fn with_timeout<T>(
    timeout: Duration,
    endpoint: &Endpoint,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let timed_out =
        || errors::unreachable(&endpoint.shown_as(), format!("no answer within {timeout:?}; is it hung?"));
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| Err(timed_out()))
}

async fn http2_handshake<S>(stream: S, closed: &Arc<CloseSignal>, shown_as: &str) -> Result<SendRequest<Body>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = CloseObserver { stream, closed: closed.clone() };
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| errors::unreachable(shown_as, error))?;
    tokio::spawn(connection);
    Ok(sender)
}
