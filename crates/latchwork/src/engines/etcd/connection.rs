//! One connection to one member.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::close_observer::CloseObserver;
use super::failure::{self, Broken};
use super::options::{Member, Options};
use super::watches::Watches;
use super::wire::{
    AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, STATUS, StatusRequest, StatusResponse,
};
use crate::engine::Boxed;
use crate::net::abandon::AbandonGuard;
use crate::net::deadline;
use crate::net::dial::dial;
use crate::net::per_runtime::Closable;
use crate::net::tls::handshake;
use crate::net::tls_failure::TlsFailure;
use crate::poison::lock_ignoring_poison;
use crate::{Error, Result};

/// The longest message that is read. The client allocates by the length before the message has arrived.
const LONGEST: usize = 64 << 20;

/// A connection to one member. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
    /// The member, as it may be shown.
    pub(super) place: String,
    pub(super) version: String,
    closed: Arc<Closed>,
    /// Whether another member could be asked instead.
    has_others: bool,
    /// What proves who asks.
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// Held by the task that renews a lease for all claims over this connection.
    turn: tokio::sync::Mutex<()>,
    pub(super) watches: Watches,
}

/// Whether the connection is to be used no more.
#[derive(Default)]
pub(super) struct Closed {
    is_set: AtomicBool,
    bell: Notify,
    tls_failure: OnceLock<TlsFailure>,
}

impl Closed {
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        // The watch reader is the only listener, and may start to listen later.
        self.bell.notify_one();
    }

    /// Keeps what is wrong with TLS, if that is why reading failed: HTTP/2 passes on the message alone.
    pub(super) fn note_read_error(&self, error: &std::io::Error) {
        if let Some(failure) = TlsFailure::of(error) {
            let _ = self.tls_failure.set(failure);
        }
    }

    pub(super) fn tls_failure(&self) -> Option<TlsFailure> {
        self.tls_failure.get().copied()
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(super) async fn until_set(&self) {
        while !self.is_set() {
            self.bell.notified().await;
        }
    }
}

impl Closable for Connection {
    fn is_closed(&self) -> bool {
        self.closed.is_set() || self.sender.is_closed()
    }
}

impl Connection {
    /// Connects to a member, asks how it is, and proves who asks.
    ///
    /// # Errors
    /// If it cannot be reached, is not trusted, refuses the user, or has lost the majority.
    pub(super) async fn open(options: &Options, member: &Member, limit: Duration) -> Result<Self> {
        let mut connection = within(limit, member, Self::greet(options, member)).await?;
        let proof = async { connection.prove(options).await.map_err(|status| connection.failed(&status)) };
        within(deadline::ETCD_AUTHENTICATE, member, proof).await?;
        if connection.version.is_empty() && options.user.is_some() {
            within(limit, member, connection.ask_status(options)).await?;
        }
        Ok(connection)
    }

    async fn greet(options: &Options, member: &Member) -> Result<Self> {
        let place = member.place();
        let connecting = dial(&member.host, member.port);
        let stream = connecting.await.map_err(|error| failure::unreachable(&place, error))?;
        let closed = Arc::<Closed>::default();
        let (sender, scheme) = match &options.tls {
            None => (drive(stream, &closed, &place).await?, "http"),
            Some(tls) => {
                let secured = handshake(tls, member.name.clone(), stream).await;
                let secured = secured.map_err(|error| error.error(format_args!("etcd at {place}")))?;
                (drive(secured, &closed, &place).await?, "https")
            }
        };
        let origin = format!("{scheme}://{place}")
            .parse()
            .map_err(|_| failure::unreachable(&place, "no such host"))?;
        let watches = Watches::new(closed.clone());
        let (token, version) = (Mutex::default(), String::new());
        let has_others = options.members.len() > 1;
        let turn = tokio::sync::Mutex::default();
        let mut connection =
            Self { sender, origin, place, version, closed, has_others, token, turn, watches };
        connection.ask_status(options).await?;
        Ok(connection)
    }

    /// Asks for the version, and whether there is a leader. Versions from 3.5.28 on tell that only users who
    /// have proved who they are, and some of them only the role `root`. A user who proves it needs a leader
    /// as well, so nothing is lost without an answer.
    async fn ask_status(&mut self, options: &Options) -> Result<()> {
        let is_proved = lock_ignoring_poison(&self.token).is_some();
        let status: StatusResponse = match self.ask(options, STATUS, StatusRequest {}).await {
            Ok(status) => status,
            Err(status) if failure::is_not_permitted(&status) => return Ok(()),
            Err(status) if failure::is_no_user(&status) && options.user.is_some() && !is_proved => {
                return Ok(());
            }
            Err(status) => {
                return Err(failure::not_greeted(
                    &status,
                    &self.place,
                    options.tls.is_some(),
                    self.closed.tls_failure(),
                ));
            }
        };
        if status.leader == 0 {
            return Err(failure::unreachable(
                &self.place,
                "no leader; is a majority of its members running?",
            ));
        }
        self.version = status.version;
        Ok(())
    }

    /// Proves who asks, if a user is given.
    async fn prove(&self, options: &Options) -> Result<(), Status> {
        let Some(user) = &options.user else { return Ok(()) };
        let request = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let answer: AuthenticateResponse = self.send(AUTHENTICATE, request).await?;
        *lock_ignoring_poison(&self.token) = answer.token.parse().ok();
        Ok(())
    }

    /// Asks, and waits for the answer.
    pub(super) async fn call<Q, A>(&self, options: &Options, path: &'static str, question: Q) -> Result<A>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.ask(options, path, question).await.map_err(|status| self.failed(&status))
    }

    /// The same, for whoever can make something of a refusal.
    pub(super) async fn ask<Q, A>(
        &self,
        options: &Options,
        path: &'static str,
        question: Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.ask_within(deadline::ETCD_REPLY_WITH_OTHERS, options, path, question).await
    }

    /// Like [`Connection::ask`], with a shorter time limit.
    pub(super) async fn ask_within<Q, A>(
        &self,
        limit: Duration,
        options: &Options,
        path: &'static str,
        question: Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let asking = async {
            match self.send(path, question.clone()).await {
                // A proof that nobody used for minutes is forgotten. Nothing was done.
                Err(status) if failure::is_forgotten(&status) && options.user.is_some() => {
                    Box::pin(self.prove(options)).await?;
                    self.send(path, question).await
                }
                answer => answer,
            }
        };
        self.answered(limit, asking).await
    }

    /// Waits for the answer to a request. A member that takes too long is given up if there are others: it may be cut off
    /// without a word, or wait for a majority that it does not know to be gone.
    pub(super) async fn answered<A>(
        &self,
        limit: Duration,
        asking: impl Future<Output = Result<A, Status>>,
    ) -> Result<A, Status> {
        if !self.has_others {
            return self.heard(asking).await;
        }
        let answer = tokio::time::timeout(limit, self.heard(asking)).await;
        answer.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(format!("no answer within {limit:?}; is it hung, or cut off?")))
        })
    }

    /// Waits for other tasks of this connection that renew a lease. It does not wait for tasks of another
    /// connection, nor for a member that other tasks have waited for in vain.
    pub(super) async fn turn(&self) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        let turn = self.turn.lock().await;
        match self.is_closed() {
            true => Err(failure::unreachable(
                &self.place,
                "it left other requests unanswered; is it hung, or cut off?",
            )),
            false => Ok(turn),
        }
    }

    async fn send<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let codec = ProstCodec::default();
        let answer = self.grpc().unary(self.signed(question), PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Opens a stream in both directions. The server may not answer before it was asked the first question.
    pub(super) fn stream<Q, A>(
        &self,
        path: &'static str,
        questions: impl tokio_stream::Stream<Item = Q> + Send + 'static,
    ) -> Boxed<Result<Streaming<A>, Status>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (mut grpc, request) = (self.grpc(), self.signed(questions));
        Box::pin(async move {
            let answer =
                grpc.streaming(request, PathAndQuery::from_static(path), ProstCodec::default()).await;
            answer.map(tonic::Response::into_inner)
        })
    }

    /// Waits for an answer. Dropped before it came, this closes the connection: the core waited long enough,
    /// and the next request goes to another member.
    pub(super) async fn heard<T>(&self, asking: impl Future<Output = T>) -> T {
        let guard = AbandonGuard::retire(|| self.closed.set());
        let answer = asking.await;
        guard.answered();
        answer
    }

    fn grpc(&self) -> Grpc<Transport> {
        // A page of claims may be as large as the values that leaders tell; the requests bound how many are read.
        let grpc = Grpc::with_origin(Transport(self.sender.clone()), self.origin.clone());
        grpc.max_decoding_message_size(LONGEST)
    }

    fn signed<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        // A member that has lost the majority must say so at once, and end streams that would stay silent.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &*lock_ignoring_poison(&self.token) {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// An answer that is none. A member that cannot answer is not asked again: the next one may.
    pub(super) fn failed(&self, status: &Status) -> Error {
        if failure::is_members_fault(status) {
            self.closed.set();
        }
        failure::failed(status, &self.place)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.closed.set();
    }
}

async fn within<T>(limit: Duration, member: &Member, work: impl Future<Output = Result<T>>) -> Result<T> {
    let none = || failure::unreachable(&member.place(), format!("no answer within {limit:?}; is it hung?"));
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(none()))
}

async fn drive<S>(stream: S, closed: &Arc<Closed>, place: &str) -> Result<SendRequest<Body>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = CloseObserver { stream, closed: closed.clone() };
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, driver) = shaken.map_err(|error| failure::unreachable(place, error))?;
    tokio::spawn(driver);
    Ok(sender)
}

/// The connection, as tonic wants it.
struct Transport(SendRequest<Body>);

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = Broken;
    type Future = Boxed<Result<Response<Incoming>, Broken>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_ready(context).map_err(Broken)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let sending = self.0.send_request(request);
        Box::pin(async { sending.await.map_err(Broken) })
    }
}
