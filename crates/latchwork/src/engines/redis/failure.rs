//! What a failed request means: whether the server may have acted, and what the caller can do about it.

use super::options::Options;
use super::wire::WireError;
use crate::{Effect, Error, ErrorKind};

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection broke: the reply, if there was one, is lost.
    Broken,
    /// The server cannot do it now, and did nothing.
    NotNow,
    /// The server does not let this user do it.
    Denied,
    /// The server does not speak the protocol.
    TooOld,
    /// This is one node of a cluster, and not the one for this key.
    Cluster,
    /// The server has no database of this number.
    NoDatabase,
    /// The newest stored token or version leaves no room for greater ones. Nothing was done.
    NoMore,
    /// Anything else: what is stored is not what we stored.
    Protocol,
}

/// The server does not let this user do it, or nobody who comes from elsewhere.
const DENIED: [&str; 4] = ["NOPERM", "NOAUTH", "WRONGPASS", "DENIED"];

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

/// The same, without a word of its own.
const TOO_MANY: &str = "ERR max number of clients";

impl Failure {
    pub(super) fn of(wire_error: &WireError) -> Self {
        match code(wire_error) {
            Some(word) if NOT_NOW.contains(&word) => Self::NotNow,
            Some(word) if DENIED.contains(&word) => Self::Denied,
            Some("FENCE" | "VERSION") => Self::NoMore,
            Some("MOVED" | "ASK" | "CROSSSLOT") => Self::Cluster,
            Some("ERR") if wire_error.words().starts_with(TOO_MANY) => Self::NotNow,
            Some(_) => Self::Protocol,
            None => match wire_error {
                WireError::TooOld => Self::TooOld,
                WireError::NoDatabase(_) => Self::NoDatabase,
                WireError::Refused(_) | WireError::Ended(_) | WireError::TimedOut(_) => Self::Broken,
            },
        }
    }

    fn kind(self) -> ErrorKind {
        match self {
            Self::Broken | Self::NotNow => ErrorKind::Unreachable,
            Self::Denied => ErrorKind::Denied,
            Self::TooOld | Self::Cluster => ErrorKind::Unsupported,
            Self::NoDatabase => ErrorKind::Invalid,
            Self::NoMore | Self::Protocol => ErrorKind::Corrupt,
        }
    }
}

/// A server that refuses to be greeted. What it says is kept only if it begins with a word that says why: one
/// that does not know the command repeats what it was sent, and that may be anything. A newer server that
/// does not know it (somebody renamed it) asks for a password first, although the greeting had one.
pub(super) fn not_greeted(wire_error: WireError, had_password: bool) -> WireError {
    let is_known = match &wire_error {
        WireError::Refused(words) if had_password && words.starts_with("NOAUTH") => false,
        WireError::Refused(words) => {
            let word = words.split(' ').next().unwrap_or_default();
            NOT_NOW.contains(&word) || DENIED.contains(&word) || words.starts_with(TOO_MANY)
        }
        _ => true,
    };
    if is_known { wire_error } else { WireError::TooOld }
}

/// A server that refuses to change to a database. It has different words for a number that is none, one that it does not have, and
/// a cluster, where there are no others.
pub(super) fn not_selected(wire_error: WireError) -> WireError {
    match wire_error {
        WireError::Refused(words) if words.starts_with("ERR ") => WireError::NoDatabase(words),
        wire_error => wire_error,
    }
}

/// A request that never got as far as the server's data.
pub(super) fn refused(wire_error: &WireError, options: &Options) -> Error {
    told(Failure::of(wire_error), wire_error, options)
}

/// A request that may have.
pub(super) fn unanswered(failure: Failure, wire_error: &WireError, options: &Options) -> Error {
    told(failure, wire_error, options).with_effect(effect(failure, wire_error))
}

fn effect(failure: Failure, wire_error: &WireError) -> Effect {
    match failure {
        Failure::NotNow | Failure::TooOld | Failure::Cluster | Failure::NoDatabase | Failure::NoMore => {
            Effect::None
        }
        // The user may not call the script at all. Inside a script, commands before the refused one were
        // carried out.
        Failure::Denied if !is_from_a_script(wire_error) => Effect::None,
        Failure::Denied | Failure::Protocol | Failure::Broken => Effect::Unknown,
    }
}

fn told(failure: Failure, wire_error: &WireError, options: &Options) -> Error {
    let (place, user) = (&options.place, options.login.user.as_deref().unwrap_or("default"));
    let hint = match (failure, code(wire_error)) {
        (_, Some("OOM")) => "the server has reached maxmemory; raise it, or use a separate server for locks",
        (_, Some("READONLY")) => "the server is a replica; name the master in the URL",
        (Failure::Broken, _) if matches!(wire_error, WireError::TimedOut(_)) => {
            match options.address.speaks_tls() {
                true => "does this port speak TLS?",
                false => "does this port need TLS (rediss:// in the URL), or is the server hung?",
            }
        }
        (Failure::Denied, Some("NOPERM")) => "docs/engines/redis.md lists the ACL rules this user needs",
        (Failure::Denied, _) => "check user and password in the URL",
        (Failure::NoDatabase, _) => "the server does not have the database that the URL names",
        (Failure::NoMore, _) => {
            "the number in this key leaves no room for greater ones; delete the key if no lock ever gave such a number out"
        }
        (Failure::Cluster, _) => "Redis Cluster is not supported yet; use a server outside of a cluster",
        _ => "",
    };
    let mut message = match failure {
        Failure::Denied => format!("redis at {place} refuses user {user:?}: {wire_error}"),
        _ => format!("redis at {place}: {wire_error}"),
    };
    if !hint.is_empty() {
        message = format!("{message}; {hint}");
    }
    let error = Error::new(failure.kind(), message);
    match wire_error {
        WireError::Ended(ended) if ended.tls().is_some() => error.with_tls_failure(),
        _ => error,
    }
}

/// The code of what went wrong. Before Redis 7.0 it stands in the text, if it was a command of a script:
/// `ERR Error running script (call to f_<digest>): @user_script:3: @user_script: 3: -OOM command not allowed`.
pub(super) fn code(wire_error: &WireError) -> Option<&str> {
    let outer = wire_error.code()?;
    let WireError::Refused(words) = wire_error else { return None };
    let inner = words.split_once(": -").and_then(|(_, words)| words.split(' ').next());
    Some(inner.filter(|_| outer == "ERR" || outer.starts_with('@')).unwrap_or(outer))
}

/// Whether a command of a script was refused, and not the script itself. Every version names the script then.
fn is_from_a_script(wire_error: &WireError) -> bool {
    has(wire_error, "script")
}

/// Whether its message says so.
fn has(wire_error: &WireError, words: &str) -> bool {
    wire_error.words().contains(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_in_a_script_is_known_by_its_own_code_whatever_the_version() {
        let failed = |reply: &str| Failure::of(&WireError::Refused(reply.to_owned()));
        let in_7_0 =
            "OOM command not allowed when used memory > 'maxmemory'. script: 17c1, on @user_script:3.";
        let in_6_2 = "ERR Error running script (call to f_17c1): @user_script:3: @user_script: 3: -OOM command not \
                      allowed when used memory > 'maxmemory'.";
        let returned_in_6_2 = "@user_script: 3: -OOM command not allowed when used memory > 'maxmemory'.";
        for reply in [in_7_0, in_6_2, returned_in_6_2] {
            assert_eq!(failed(reply), Failure::NotNow, "{reply}");
        }
        assert_eq!(failed(&in_6_2.replace("-OOM", "-READONLY")), Failure::NotNow);
        assert_eq!(
            failed("ERR Error running script (call to f_17c1): @user_script:3: no"),
            Failure::Protocol
        );
        assert_eq!(failed("WRONGTYPE Operation against a key: -OOM"), Failure::Protocol);
    }

    #[test]
    fn only_what_a_server_refused_as_a_whole_did_nothing() {
        let effect = |wire_error: WireError| effect(Failure::of(&wire_error), &wire_error);
        for reply in [
            "NOAUTH Authentication required.",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "NOPERM No permissions to access a key",
            "MOVED 15495 127.0.0.1:7001",
            "CLUSTERDOWN Hash slot not served",
            "READONLY You can't write against a read only replica.",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "OOM command not allowed when used memory > 'maxmemory'. script: 17c1, on @user_script:3.",
            "FENCE a:latchwork1:f",
        ] {
            assert_eq!(effect(WireError::Refused(reply.to_owned())), Effect::None, "{reply}");
        }
        for reply in [
            "NOPERM No permissions to access a key script: 17c1, on @user_script:3.",
            "ERR Error running script (call to f_17c1): @user_script:3: @user_script: 3: -NOPERM no",
            "ERR The user executing the script can't run this command or subcommand script: 17c1, on @user_script:3.",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: 17c1, on @user_script:3.",
            "UNKILLABLE whatever that is",
        ] {
            assert_eq!(effect(WireError::Refused(reply.to_owned())), Effect::Unknown, "{reply}");
        }
        assert_eq!(effect(WireError::Ended("closed".into())), Effect::Unknown);
        assert_eq!(effect(WireError::TimedOut("late".to_owned())), Effect::Unknown);
    }

    #[test]
    fn what_refuses_a_greeting_is_repeated_only_if_it_begins_with_a_word_that_says_why() {
        let told = |reply: &str| not_greeted(WireError::Refused(reply.to_owned()), false);
        for reply in [
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'secret'",
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `secret: -OOM no`, ",
            "ERR unknown command 'HELLO', with args beginning with: 'secret max number of clients'",
            "NOPROTO unsupported protocol version",
            "",
        ] {
            assert_eq!(told(reply), WireError::TooOld, "{reply}");
        }
        let after_password =
            not_greeted(WireError::Refused("NOAUTH Authentication required.".to_owned()), true);
        assert_eq!(after_password, WireError::TooOld);
        assert_eq!(Failure::of(&WireError::TooOld).kind(), ErrorKind::Unsupported);
        for (reply, kind) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", ErrorKind::Denied),
            ("NOAUTH HELLO must be called with the client already authenticated", ErrorKind::Denied),
            ("DENIED Redis is running in protected mode", ErrorKind::Denied),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::Unreachable),
            ("ERR max number of clients reached", ErrorKind::Unreachable),
        ] {
            let refused = WireError::Refused(reply.to_owned());
            assert_eq!((told(reply), Failure::of(&refused).kind()), (refused, kind), "{reply}");
        }
    }

    #[test]
    fn whatever_a_server_says_of_a_database_that_it_does_not_have_it_is_the_url_that_is_wrong() {
        let failed = |reply: &str| Failure::of(&not_selected(WireError::Refused(reply.to_owned())));
        for reply in [
            "ERR SELECT is not allowed in cluster mode",
            "ERR DB index is out of range",
            "ERR invalid DB index",
            "ERR unknown command 'SELECT', with args beginning with: '1' ",
        ] {
            assert_eq!(
                (failed(reply), failed(reply).kind()),
                (Failure::NoDatabase, ErrorKind::Invalid),
                "{reply}"
            );
        }
        assert_eq!(
            failed("NOPERM this user has no permissions to run the 'select' command"),
            Failure::Denied
        );
        assert_eq!(failed("LOADING Redis is loading the dataset in memory"), Failure::NotNow);
    }
}
