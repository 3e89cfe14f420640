//! The test binaries of the workspace, as cargo builds them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A test binary.
#[derive(Clone)]
pub(crate) struct Binary {
    /// For people: the name of the file below `tests/`, or of the crate whose unit tests it has.
    pub(crate) suite: String,
    pub(crate) package: String,
    pub(crate) path: PathBuf,
    /// The folder of its crate, in which cargo would run it.
    pub(crate) folder: PathBuf,
    pub(crate) is_unit_test: bool,
}

impl Binary {
    /// From a message of `cargo build --message-format json`, if it tells of one.
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
            // The command has a `redis` and a `run`: alone, these names would say too little.
            "test" if package == "latch" => format!("latch-{name}"),
            "test" => name.to_owned(),
            _ => return None,
        };
        Some(Self { suite, package, path, folder, is_unit_test: kind != "test" })
    }

    /// Whether its cases run on engines by their kind, many in one process.
    pub(crate) fn is_conformance(&self) -> bool {
        self.suite == "conformance"
    }

    /// Names of its cases, without running them.
    pub(crate) fn list(&self) -> io::Result<Vec<String>> {
        let output = self.ask(&["--list", "--format", "terse"])?;
        Ok(output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Kinds of engines that conformance knows.
    pub(crate) fn kinds(&self) -> io::Result<Vec<String>> {
        Ok(self.ask(&["--kinds"])?.lines().map(str::to_owned).collect())
    }

    fn ask(&self, arguments: &[&str]) -> io::Result<String> {
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
    fn a_message_names_a_test_binary() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/latch/Cargo.toml","target":{"kind":["test"],"name":"redis"},"profile":{"test":true},"executable":"/w/t/redis-1"}"#;
        let binary = Binary::from_message(line).expect("it is one");
        assert_eq!((binary.suite.as_str(), binary.is_unit_test), ("latch-redis", false));
        assert!(Binary::from_message(r#"{"reason":"build-finished"}"#).is_none());
    }
}
