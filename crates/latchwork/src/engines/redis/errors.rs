//! Errors: whether the server may have acted, and how the user can fix it.

use super::options::Options;
use super::wire::WireError;
use crate::{Effect, Error, ErrorKind};

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection broke: the reply, if there was one, is lost.
    Broken,
    /// The server cannot carry out the request now, and did nothing.
    NotNow,
    /// The user lacks the permission, or could not authenticate.
    Denied,
    /// The server does not speak RESP3.
    TooOld,
    /// The server is a node of a cluster, and not the one for this key.
    Cluster,
    /// The server does not have the database with this number.
    NoDatabase,
    /// The newest stored token or version leaves no room for greater ones. Nothing was done.
    Exhausted,
    /// Any other error: another program may have written to our keys.
    Protocol,
}

/// The codes of [`Failure::Denied`]. DENIED is protected mode, which refuses clients on other machines.
const DENIED: [&str; 4] = ["NOPERM", "NOAUTH", "WRONGPASS", "DENIED"];

/// The codes of [`Failure::NotNow`]. The first write of a script is refused, so nothing was written.
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

/// Also [`Failure::NotNow`]. It has no code of its own.
const TOO_MANY_CLIENTS: &str = "ERR max number of clients";

impl Failure {
    pub(super) fn of(wire_error: &WireError) -> Self {
        match code(wire_error) {
            Some(code) if NOT_NOW.contains(&code) => Self::NotNow,
            Some(code) if DENIED.contains(&code) => Self::Denied,
            Some("FENCE" | "VERSION") => Self::Exhausted,
            Some("MOVED" | "ASK" | "CROSSSLOT") => Self::Cluster,
            Some("ERR") if wire_error.message().starts_with(TOO_MANY_CLIENTS) => Self::NotNow,
            Some(_) => Self::Protocol,
            None => match wire_error {
                WireError::TooOld => Self::TooOld,
                WireError::NoDatabase(_) => Self::NoDatabase,
                WireError::Refused(_) | WireError::Closed(_) | WireError::TimedOut(_) => Self::Broken,
            },
        }
    }

    fn kind(self) -> ErrorKind {
        match self {
            Self::Broken | Self::NotNow => ErrorKind::Unreachable,
            Self::Denied => ErrorKind::Denied,
            Self::TooOld | Self::Cluster => ErrorKind::Unsupported,
            Self::NoDatabase => ErrorKind::Invalid,
            Self::Exhausted | Self::Protocol => ErrorKind::Corrupt,
        }
    }
}

/// The error of HELLO. The server's message is kept only if it begins with a known code: a server that does
/// not know the command repeats its arguments, which include the password. A newer server that does not know
/// it (the command was renamed) demands authentication first, although HELLO had the password.
pub(super) fn handshake_error(wire_error: WireError, had_password: bool) -> WireError {
    let is_known = match &wire_error {
        WireError::Refused(message) if had_password && message.starts_with("NOAUTH") => false,
        WireError::Refused(message) => {
            let code = message.split(' ').next().unwrap_or_default();
            NOT_NOW.contains(&code) || DENIED.contains(&code) || message.starts_with(TOO_MANY_CLIENTS)
        }
        _ => true,
    };
    if is_known { wire_error } else { WireError::TooOld }
}

/// The error of SELECT. Servers have different messages for text that is not a number, for a database that
/// does not exist, and for a cluster, which has only one.
pub(super) fn select_error(wire_error: WireError) -> WireError {
    match wire_error {
        WireError::Refused(message) if message.starts_with("ERR ") => WireError::NoDatabase(message),
        wire_error => wire_error,
    }
}

/// The error of a request that cannot have touched the server's data.
pub(super) fn connect_error(wire_error: &WireError, options: &Options) -> Error {
    error(Failure::of(wire_error), wire_error, options)
}

/// The error of a request that may have touched the server's data.
pub(super) fn request_error(failure: Failure, wire_error: &WireError, options: &Options) -> Error {
    error(failure, wire_error, options).with_effect(effect(failure, wire_error))
}

fn effect(failure: Failure, wire_error: &WireError) -> Effect {
    match failure {
        Failure::NotNow | Failure::TooOld | Failure::Cluster | Failure::NoDatabase | Failure::Exhausted => {
            Effect::None
        }
        // The user may not call the script at all. Inside a script, the commands before the refused one were
        // carried out.
        Failure::Denied if !is_from_script(wire_error) => Effect::None,
        Failure::Denied | Failure::Protocol | Failure::Broken => Effect::Unknown,
    }
}

fn error(failure: Failure, wire_error: &WireError, options: &Options) -> Error {
    let (shown_as, user) = (&options.shown_as, options.user.name());
    let hint = match (failure, code(wire_error)) {
        (_, Some("OOM")) => "the server has reached maxmemory; raise it, or use a separate server for locks",
        (_, Some("READONLY")) => "the server is a replica; name the master in the URL",
        (Failure::Broken, _) if matches!(wire_error, WireError::TimedOut(_)) => {
            match options.endpoint.speaks_tls() {
                true => "does this port speak TLS?",
                false => "does this port need TLS (rediss:// in the URL), or is the server hung?",
            }
        }
        (Failure::Denied, Some("NOPERM")) => "docs/engines/redis.md lists the ACL rules this user needs",
        (Failure::Denied, _) => "check user and password in the URL",
        (Failure::NoDatabase, _) => "the server does not have the database that the URL names",
        (Failure::Exhausted, _) => {
            "the number in this key leaves no room for greater ones; delete the key if no lock ever gave such a number out"
        }
        (Failure::Cluster, _) => "Redis Cluster is not supported yet; use a server outside of a cluster",
        _ => "",
    };
    let mut message = match failure {
        Failure::Denied => format!("redis at {shown_as} refuses user {user:?}: {wire_error}"),
        _ => format!("redis at {shown_as}: {wire_error}"),
    };
    if !hint.is_empty() {
        message = format!("{message}; {hint}");
    }
    let error = Error::new(failure.kind(), message);
    match wire_error {
        WireError::Closed(closed) if closed.tls().is_some() => error.with_tls_failure(),
        _ => error,
    }
}

/// The code of an error. Before Redis 7.0 the code of a command in a script is inside the message:
/// `ERR Error running script (call to f_<digest>): @user_script:3: @user_script: 3: -OOM command not
/// allowed`.
pub(super) fn code(wire_error: &WireError) -> Option<&str> {
    let outer = wire_error.code()?;
    let WireError::Refused(message) = wire_error else { return None };
    let inner = message.split_once(": -").and_then(|(_, message)| message.split(' ').next());
    Some(inner.filter(|_| outer == "ERR" || outer.starts_with('@')).unwrap_or(outer))
}

/// Whether a command of a script was refused, and not the script itself. Every version mentions the script
/// then.
fn is_from_script(wire_error: &WireError) -> bool {
    contains(wire_error, "script")
}

fn contains(wire_error: &WireError, text: &str) -> bool {
    wire_error.message().contains(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_in_a_script_keeps_its_own_code_on_every_version() {
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
    fn only_a_request_that_was_refused_as_a_whole_did_nothing() {
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
        assert_eq!(effect(WireError::Closed("closed".into())), Effect::Unknown);
        assert_eq!(effect(WireError::TimedOut("late".to_owned())), Effect::Unknown);
    }

    #[test]
    fn the_error_of_a_handshake_is_repeated_only_if_it_begins_with_a_known_code() {
        let mapped = |reply: &str| handshake_error(WireError::Refused(reply.to_owned()), false);
        for reply in [
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'secret'",
            "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `secret: -OOM no`, ",
            "ERR unknown command 'HELLO', with args beginning with: 'secret max number of clients'",
            "NOPROTO unsupported protocol version",
            "",
        ] {
            assert_eq!(mapped(reply), WireError::TooOld, "{reply}");
        }
        let after_password =
            handshake_error(WireError::Refused("NOAUTH Authentication required.".to_owned()), true);
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
            assert_eq!((mapped(reply), Failure::of(&refused).kind()), (refused, kind), "{reply}");
        }
    }

    #[test]
    fn a_missing_database_is_a_mistake_in_the_url_whatever_the_servers_message() {
        let failed = |reply: &str| Failure::of(&select_error(WireError::Refused(reply.to_owned())));
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
