//! The source of the scripts, put together from the files of this folder. Outside of the engine, the
//! benchmark and the tests that send scripts themselves include this module by its path.

pub(crate) mod layout;

const ENQUEUE: &str = include_str!("enqueue.lua");

pub(crate) const CLAIM_SET: &[&str] = &[include_str!("take_set.lua"), include_str!("claim.lua"), ENQUEUE];
pub(crate) const CLAIM_SETNX: &[&str] = &[include_str!("take_setnx.lua"), include_str!("claim.lua"), ENQUEUE];
pub(crate) const CLAIM_SHARED: &[&str] = &[include_str!("claim_shared.lua"), ENQUEUE];
pub(crate) const HEARTBEAT: &[&str] = &[include_str!("heartbeat.lua")];
pub(crate) const RENEW: &[&str] = &[include_str!("renew.lua")];
pub(crate) const RENEW_SHARED: &[&str] = &[include_str!("renew_shared.lua")];
pub(crate) const RELEASE: &[&str] = &[include_str!("release.lua")];
pub(crate) const RELEASE_SHARED: &[&str] = &[include_str!("release_shared.lua")];
pub(crate) const INSPECT: &[&str] = &[include_str!("inspect.lua")];
pub(crate) const REVOKE: &[&str] = &[include_str!("revoke.lua")];
pub(crate) const REVOKE_SHARED: &[&str] = &[include_str!("revoke_shared.lua")];
pub(crate) const CELL_WRITE: &[&str] = &[include_str!("cell_write.lua")];
pub(crate) const GETSET_CLAIM: &[&str] = &[include_str!("getset_claim.lua")];
pub(crate) const GETSET_RENEW: &[&str] = &[include_str!("getset_renew.lua")];
pub(crate) const GETSET_RELEASE: &[&str] = &[include_str!("getset_release.lua")];
pub(crate) const REDLOCK_CLAIM: &[&str] = &[include_str!("redlock_claim.lua")];
pub(crate) const REDLOCK_RAISE: &[&str] = &[include_str!("redlock_raise.lua")];
pub(crate) const REDLOCK_HEAL: &[&str] = &[include_str!("redlock_heal.lua")];
pub(crate) const REDLOCK_RELEASE: &[&str] = &[include_str!("redlock_release.lua")];

/// Each is inserted where a script has its name in a comment `--{{name}}`. A fragment may contain those
/// behind it.
const FRAGMENTS: [(&str, &str); 4] = [
    ("--{{hand_over}}", include_str!("hand_over.lua")),
    ("--{{shared}}", include_str!("shared.lua")),
    ("--{{write_token}}", include_str!("write_token.lua")),
    ("--{{next_token}}", include_str!("next_token.lua")),
];

/// The source of a script. Only numbers of the options get into it, and nothing of a lock: that is sent as
/// KEYS and ARGV. Every position in a record is inserted as a number, so naming it costs the server nothing.
/// Comment lines are left out.
pub(crate) fn compose(parts: &[&str], gap_ms: u128, max_waiters: u32) -> String {
    let mut source = parts.concat();
    for (marker, fragment) in FRAGMENTS {
        source = source.replace(marker, fragment);
    }
    let code = source.lines().filter(|line| !line.trim_start().starts_with("--"));
    let mut source: String = code.flat_map(|line| [line, "\n"]).collect();
    for (name, number) in layout::NUMBERS {
        source = source.replace(name, &number.to_string());
    }
    source = source.replace("{{CHANNEL_PREFIX}}", layout::CHANNEL_PREFIX);
    source.replace("{{gap}}", &gap_ms.to_string()).replace("{{most}}", &max_waiters.to_string())
}
