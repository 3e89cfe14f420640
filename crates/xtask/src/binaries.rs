//! The test binaries of the workspace, as cargo builds them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One test binary.
#[derive(Clone)]
pub(crate) struct Binary {
    /// The name in reports: that of the file below `tests/`, or that of the crate for unit tests.
    pub(crate) suite: String,
    pub(crate) package: String,
    pub(crate) path: PathBuf,
    /// The folder of its crate: cargo runs test binaries there.
    pub(crate) folder: PathBuf,
    pub(crate) is_unit_test: bool,
}

impl Binary {
    /// Parses a message of `cargo build --message-format json`. `None` if it is not about a test binary.
    pub(crate) fn from_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_str()?.to_owned();
        let name = message["target"]["name"].as_str()?;
        let kind = message["target"]["kind"][0].as_str()?;
        let suite = match kind {
            "lib" | "bin" => format!("{name}-unit"),
            // The command `latch` has suites named `redis` and `run`, which would be ambiguous.
            "test" if package == "latch" => format!("latch-{name}"),
            "test" => name.to_owned(),
            _ => return None,
        };
        Some(Self { suite, package, path, folder, is_unit_test: kind != "test" })
    }

    /// Whether this is the conformance suite, whose cases run on each kind of engine, many in one process.
    pub(crate) fn is_conformance(&self) -> bool {
        self.suite == "conformance"
    }

    /// Lists the names of its cases, without running them.
    pub(crate) fn list(&self) -> io::Result<Vec<String>> {
        let output = self.run(&["--list", "--format", "terse"])?;
        Ok(output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// The kinds of engines of the conformance suite.
    pub(crate) fn kinds(&self) -> io::Result<Vec<String>> {
        Ok(self.run(&["--kinds"])?.lines().map(str::to_owned).collect())
    }

    fn run(&self, arguments: &[&str]) -> io::Result<String> {
        let output = Command::new(&self.path).args(arguments).current_dir(&self.folder).output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!(
                "{} {arguments:?}: {}",
                self.path.display(),
                output.status
            )));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_binary_is_parsed_from_a_message_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/latch/Cargo.toml","target":{"kind":["test"],"name":"redis"},"profile":{"test":true},"executable":"/w/t/redis-1"}"#;
        let binary = Binary::from_message(line).expect("it is one");
        assert_eq!((binary.suite.as_str(), binary.is_unit_test), ("latch-redis", false));
        assert!(Binary::from_message(r#"{"reason":"build-finished"}"#).is_none());
    }
}
