//! `./test versions`: conformance and faults against servers of other versions than the machine's packages.
//!
//! The servers come from other releases of Debian, and are unpacked below `target/`. Packages change with
//! time, so a change need not pass these tests. The table in `docs/engines/versions.md` shows which version
//! passed on which day.

mod servers;
mod table;
mod unpack;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;
use std::{env, fs, io};

use crate::binaries::Binary;
use crate::report::{Failure, Report};
use crate::scheduler::{self, Selection};
use servers::{SERVERS, Server};

/// Names the folder of a server for the tests. `crates/testkit/src/servers/root.rs` is the other side.
const ROOT_VARIABLE: &str = "TESTKIT_SERVERS_ROOT";

/// Tests the servers whose names start with `name`, and writes the results into the table. With `part` it
/// runs only these tests, and writes nothing.
pub(crate) fn run(
    report: &'static Report,
    binaries: &[Binary],
    name: &str,
    part: Option<&Selection>,
) -> io::Result<()> {
    let wanted: Vec<_> = SERVERS.iter().filter(|server| server.name.starts_with(name)).collect();
    if wanted.is_empty() {
        let names: Vec<_> = SERVERS.iter().map(|server| server.name).collect();
        return Err(io::Error::other(format!("there is no server {name}; there are {}", names.join(", "))));
    }
    for server in wanted {
        let command = format!("./test versions {}", server.name);
        let stage = format!("unpacking {}", server.name);
        let unpacked = report.stage(&stage, || {
            let began = Instant::now();
            server.unpack().map_err(|error| Failure {
                name: stage.clone(),
                output: error.to_string(),
                repeat: command.clone(),
                began,
                ended: Instant::now(),
            })
        });
        let Some(unpacked) = unpacked else { continue };
        let environment = unpacked.environment()?;
        let all = Selection::Version { kinds: server.kinds, suites: server.suites, without: server.without };
        let result =
            report.part(&command, || scheduler::run(binaries, part.unwrap_or(&all), &environment, report))?;
        if part.is_none() {
            table::write(server, &unpacked.version, &result)?;
        }
    }
    Ok(())
}

/// A server that is unpacked below a folder of its own.
struct Unpacked {
    root: PathBuf,
    /// The version of its package.
    version: String,
}

impl Server {
    fn unpack(&self) -> io::Result<Unpacked> {
        let root = env::current_dir()?.join("target/versions").join(self.name);
        let version = unpack::unpack(&root, self.release, self.package, self.programs)?;
        let programs = root.join("programs");
        fs::create_dir_all(&programs)?;
        for (name, place) in self.programs {
            let link = programs.join(name);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(root.join(place), link)?;
        }
        Ok(Unpacked { root, version })
    }
}

impl Unpacked {
    fn environment(&self) -> io::Result<Vec<(&'static str, OsString)>> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = [self.root.join("programs")].into_iter().chain(env::split_paths(&path));
        let path = env::join_paths(folders).map_err(io::Error::other)?;
        Ok(vec![("PATH", path), (ROOT_VARIABLE, self.root.clone().into_os_string())])
    }
}
