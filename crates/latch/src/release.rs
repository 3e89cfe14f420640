//! `latch release NAME --force`: the former name of `latch revoke`.

use clap::Args;
use latchwork::LockName;
use latchwork::engine::LockState;

use crate::cli::TargetOptions;
use crate::connection::with_client;
use crate::failure::{Failure, USAGE};
use crate::lock_view::{LockView, inspect};
use crate::output::Output;
use crate::revoke::{self, RevokeOptions};
use crate::shell_command;
use crate::target::Target;

/// The former name of latch revoke
#[derive(Args, Debug)]
#[command(
    after_help = "With --force it does what latch revoke does, and prints that command; without, it only prints the holder and \
                  the command to type.\n\n\
                  Exit codes: 0 taken away; 1 nothing was taken away, because the lock was not held or changed hands \
                  meanwhile; 64 usage, also without --force, or if the holder is another program's; 69 engine unreachable."
)]
pub(crate) struct ReleaseOptions {
    /// The lock
    pub(crate) name: String,
    /// Take the lock away
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not wait for the end of the holder's lease
    #[arg(long)]
    pub(crate) now: bool,
}

impl ReleaseOptions {
    /// The options of the same `latch revoke`.
    fn as_revoke(&self) -> RevokeOptions {
        let (name, now, reason) = (self.name.clone(), self.now, "say here why".to_owned());
        RevokeOptions { name, now, foreign: false, reason }
    }
}

/// Takes the lock away with `--force`. Without it, fails with the command to type.
pub(crate) fn run(
    options: &ReleaseOptions,
    target_options: &TargetOptions,
    target: &Target,
    output: Output,
) -> Result<u8, Failure> {
    let (name, revoke) = (LockName::new(&options.name)?, options.as_revoke());
    if !options.force {
        let lock = with_client(target, output, async |client| {
            let state = inspect(client, &name).await?;
            Ok((LockView::new(&state, &client.guarantees()), state))
        });
        return Err(force_missing(options, target_options, lock.ok().as_ref()));
    }
    let code = revoke::take_away(&revoke, None, target_options, target, output)?;
    output
        .text_notice(&format!("release --force is now: {}", shell_command::revoke(&revoke, target_options)));
    Ok(code)
}

/// The failure of `latch release` without `--force`, with the equivalent `latch revoke` as its hint.
fn force_missing(
    options: &ReleaseOptions,
    target_options: &TargetOptions,
    lock: Option<&(LockView, LockState)>,
) -> Failure {
    let instead = options.as_revoke();
    if let Some((_, state)) = lock
        && let Some(refused) = state.holders.iter().find_map(|holder| instead.mode().check(holder).err())
    {
        // The command in the hint would be refused too.
        let context = format!(
            "latch revoke takes the lock {:?} away from its holder, but not from this one",
            options.name
        );
        return revoke::with_foreign_hint(
            Failure::from(refused).context(&context),
            state,
            &instead,
            target_options,
        );
    }
    let holder = match lock.map(|(lock, _)| lock) {
        Some(lock) if lock.held => format!("held by {}", lock.who()),
        Some(_) => "it is not held now".to_owned(),
        None => "its holder is unknown, because the engine does not answer".to_owned(),
    };
    let message = format!("latch revoke takes the lock {:?} away from its holder; {holder}", options.name);
    Failure::new(USAGE, message).hint(shell_command::revoke(&instead, target_options))
}
