//! What a failed request means: whether the server may have acted, and what the caller can do about it.

use redis::{ConnectionAddr, RedisError};

use super::options::Options;
use crate::{Effect, Error, ErrorKind};

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection broke: the reply, if there was one, is lost.
    Connection,
    /// The server cannot do it now, and did nothing.
    NotNow,
    /// The server does not let this user do it.
    Denied,
    /// This is one node of a cluster, and not the one for this key.
    Cluster,
    /// The server has no database of this number.
    NoDatabase,
    /// Anything else: what is stored is not what we stored.
    Strange,
}

/// The server cannot do it now. The first write of a script is refused, so nothing was written.
const NOT_NOW: [&str; 10] = [
    "OOM",
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "BUSY",
    "NOREPLICAS",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOSCRIPT",
];

impl Failure {
    pub(super) fn of(error: &RedisError) -> Self {
        match code(error) {
            Some(word) if NOT_NOW.contains(&word) => Self::NotNow,
            Some("NOPERM" | "NOAUTH" | "WRONGPASS") => Self::Denied,
            Some("MOVED" | "ASK" | "CROSSSLOT") => Self::Cluster,
            _ if has(error, "switch database") => Self::NoDatabase,
            Some(_) => Self::Strange,
            None if error.kind() == redis::ErrorKind::AuthenticationFailed => Self::Denied,
            None => Self::Connection,
        }
    }

    fn kind(self) -> ErrorKind {
        match self {
            Self::Connection | Self::NotNow => ErrorKind::Unreachable,
            Self::Denied => ErrorKind::Denied,
            Self::Cluster => ErrorKind::Unsupported,
            Self::NoDatabase => ErrorKind::Invalid,
            Self::Strange => ErrorKind::Corrupt,
        }
    }
}

/// A request that never got as far as the server's data.
pub(super) fn refused(error: &RedisError, options: &Options) -> Error {
    told(Failure::of(error), error, options)
}

/// A request that may have.
pub(super) fn unanswered(failure: Failure, error: &RedisError, options: &Options) -> Error {
    let effect = match failure {
        Failure::NotNow | Failure::Cluster | Failure::NoDatabase => Effect::None,
        // A script may be stopped half-way.
        Failure::Denied | Failure::Strange | Failure::Connection => Effect::Unknown,
    };
    told(failure, error, options).with_effect(effect)
}

fn told(failure: Failure, error: &RedisError, options: &Options) -> Error {
    let (place, user) = (&options.place, options.client.get_connection_info().redis_settings().username());
    let user = user.unwrap_or("default");
    let hint = match (failure, code(error)) {
        (_, Some("OOM")) => "it has reached its maxmemory; raise that, or give locks a server of their own",
        (_, Some("READONLY")) => "it is a replica; name the master",
        (Failure::Connection, _) if speaks_tls(options) => tls_hint(error),
        (Failure::Connection, _) if error.is_timeout() => {
            "does it speak plain text on this port, or is it hung?"
        }
        (Failure::Denied, Some("NOPERM")) => "docs/engines/redis.md has the grant this user needs",
        (Failure::Denied, _) => "look at user and password in the URL",
        (Failure::NoDatabase, _) => "the URL names a database that it does not have",
        (Failure::Cluster, _) => "a cluster's nodes are not supported yet; use a server of its own",
        _ => "",
    };
    let mut message = match failure {
        Failure::Denied => format!("redis at {place} refuses user {user:?}: {error}"),
        _ => format!("redis at {place}: {error}"),
    };
    if !hint.is_empty() {
        message = format!("{message}; {hint}");
    }
    Error::new(failure.kind(), message)
}

/// What to do about a handshake that failed. The library only has words for why.
fn tls_hint(error: &RedisError) -> &'static str {
    match error {
        error if has(error, "UnknownIssuer") => "ca= in the URL names the authority to trust",
        error if has(error, "CertificateRequired") => {
            "it wants to know who this client is: cert= and key= in the URL"
        }
        error if has(error, "InvalidContentType") || error.is_timeout() => "does it speak TLS on this port?",
        _ => "",
    }
}

/// The code of what went wrong. Before Redis 7.0 it stands in the text, if it was a command of a script:
/// `ERR Error running script (call to f_<digest>): @user_script:3: @user_script: 3: -OOM command not allowed`.
pub(super) fn code(error: &RedisError) -> Option<&str> {
    let outer = error.code()?;
    let inner = error.detail().and_then(|text| text.split_once(": -")?.1.split(' ').next());
    Some(inner.filter(|_| outer == "ERR" || outer.starts_with('@')).unwrap_or(outer))
}

/// Whether its message says so.
fn has(error: &RedisError, words: &str) -> bool {
    error.to_string().contains(words)
}

fn speaks_tls(options: &Options) -> bool {
    matches!(options.client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_in_a_script_is_known_by_its_own_code_whatever_the_version() {
        let failed = |reply: &str| {
            let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).expect("a reply");
            Failure::of(&value.extract_error().expect_err("an error"))
        };
        let in_7_0 =
            "OOM command not allowed when used memory > 'maxmemory'. script: 17c1, on @user_script:3.";
        let in_6_2 = "ERR Error running script (call to f_17c1): @user_script:3: @user_script: 3: -OOM command not \
                      allowed when used memory > 'maxmemory'.";
        let returned_in_6_2 = "@user_script: 3: -OOM command not allowed when used memory > 'maxmemory'.";
        for reply in [in_7_0, in_6_2, returned_in_6_2] {
            assert_eq!(failed(reply), Failure::NotNow, "{reply}");
        }
        assert_eq!(failed(&in_6_2.replace("-OOM", "-READONLY")), Failure::NotNow);
        assert_eq!(failed("ERR Error running script (call to f_17c1): @user_script:3: no"), Failure::Strange);
        assert_eq!(failed("WRONGTYPE Operation against a key: -OOM"), Failure::Strange);
    }
}
