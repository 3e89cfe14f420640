//! `latch release NAME --force`: the former name of `latch revoke`.

use clap::Args;
use latchwork::LockName;
use latchwork::engine::LockState;

use crate::cli::TargetOptions;
use crate::connection::with_client;
use crate::failure::{Failure, USAGE};
use crate::lock_view::{LockView, look};
use crate::output::Output;
use crate::revoke::{self, RevokeOptions};
use crate::shell_command;
use crate::target::Target;

/// The former name of latch revoke
#[derive(Args, Debug)]
#[command(
    after_help = "With --force, it does what latch revoke does, and says so; without, it only says who holds the lock and \
                  what to type.\n\n\
                  Exit codes: 0 taken away; 1 nothing was taken away, because nobody holds it or it changed hands \
                  meanwhile; 64 usage, also without --force, or if the holder is another program's; 69 engine unreachable."
)]
pub(crate) struct ReleaseOptions {
    /// The lock
    pub(crate) name: String,
    /// Yes, take it away
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not wait for the end of the holder's lease
    #[arg(long)]
    pub(crate) now: bool,
}

impl ReleaseOptions {
    /// This command line, as it is written now.
    fn as_revoke(&self) -> RevokeOptions {
        let (name, now, reason) = (self.name.clone(), self.now, "say here why".to_owned());
        RevokeOptions { name, now, foreign: false, reason }
    }
}

/// Takes the lock away, or says how that is done.
pub(crate) fn run(
    options: &ReleaseOptions,
    place: &TargetOptions,
    target: &Target,
    output: Output,
) -> Result<u8, Failure> {
    let (name, revoke) = (LockName::new(&options.name)?, options.as_revoke());
    if !options.force {
        let lock = with_client(target, output, async |client| {
            let state = look(client, &name).await?;
            Ok((LockView::new(&state, &client.guarantees()), state))
        });
        return Err(teach(options, place, lock.ok().as_ref()));
    }
    let code = revoke::carry_out(&revoke, None, place, target, output)?;
    output.remark(&format!("release --force is now: {}", shell_command::revoke(&revoke, place)));
    Ok(code)
}

fn teach(options: &ReleaseOptions, place: &TargetOptions, lock: Option<&(LockView, LockState)>) -> Failure {
    let instead = options.as_revoke();
    if let Some((_, state)) = lock
        && let Some(refused) = state.holders.iter().find_map(|holder| instead.how().check(holder).err())
    {
        // As the command in the hint would be.
        let what = format!(
            "latch revoke takes the lock {:?} away from its holder, but not from this one",
            options.name
        );
        return revoke::advise(Failure::from(refused).after(&what), state, &instead, place);
    }
    let who = match lock.map(|(lock, _)| lock) {
        Some(lock) if lock.held => format!("held by {}", lock.who()),
        Some(_) => "nobody holds it now".to_owned(),
        None => "who holds it is not known: the engine does not answer".to_owned(),
    };
    let message = format!("latch revoke takes the lock {:?} away from its holder; {who}", options.name);
    Failure::new(USAGE, message).hint(shell_command::revoke(&instead, place))
}
