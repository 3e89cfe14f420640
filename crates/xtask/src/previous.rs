//! The previous release of `latch`, which a test runs beside today's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::report::Report;
use crate::stages;

/// Names the built program to the tests.
pub(crate) const VARIABLE: &str = "LATCH_PREVIOUS";
/// The suite that needs it.
pub(crate) const SUITE: &str = "latch-previous";
const SOURCES: &str = "crates/testkit/previous/latch.tar.gz";

/// Builds it, and returns what tells the tests where it is. `None`, and a failure in the report, if it cannot
/// be built.
pub(crate) fn build(report: &Report) -> Option<(&'static str, OsString)> {
    let folder = target().join("previous");
    let program = folder.join("latch");
    let is_built = program.exists() && fs::read(SOURCES).ok() == fs::read(folder.join("built.tar.gz")).ok();
    if !is_built {
        let sources = folder.join("src");
        let manifest = sources.join("Cargo.toml");
        if let Err(error) = unpack(&sources) {
            return stages::fails(report, "build of the previous release", &format!("{SOURCES}: {error}"));
        }
        // The target folder of the workspace: most dependencies are built there already.
        let arguments = format!("build --quiet -p latch --manifest-path {}", manifest.display());
        stages::cargo_into(report, "build of the previous release", &arguments, &target())?;
        let kept = fs::copy(target().join("debug/latch"), &program)
            .and_then(|_| fs::copy(SOURCES, folder.join("built.tar.gz")));
        if let Err(error) = kept {
            return stages::fails(report, "build of the previous release", &error.to_string());
        }
    }
    Some((VARIABLE, program.into_os_string()))
}

/// Absolute: tests run in the folders of their crates.
fn target() -> PathBuf {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::path::absolute(&folder).unwrap_or(folder)
}

fn unpack(sources: &Path) -> io::Result<()> {
    if sources.exists() {
        fs::remove_dir_all(sources)?;
    }
    fs::create_dir_all(sources)?;
    let status = Command::new("tar").arg("-xzf").arg(SOURCES).arg("-C").arg(sources).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("tar: {status}")));
    }
    for package in ["latchwork", "latch", "forkmark"] {
        let manifest = sources.join("crates").join(package).join("Cargo.toml");
        fs::write(&manifest, without_tests(&fs::read_to_string(&manifest)?))?;
    }
    Ok(())
}

/// A manifest without dependencies of tests: packages of the workspace that are not in the archive are among
/// them.
fn without_tests(manifest: &str) -> String {
    let mut is_kept = true;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_kept = !line.contains("dev-dependencies");
        }
        is_kept
    });
    lines.fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::without_tests;

    #[test]
    fn dependencies_of_tests_are_left_out() {
        let manifest =
            "[package]\nname = \"a\"\n\n[dev-dependencies]\nb = \"1\"\n\n[lints]\nworkspace = true\n";
        assert_eq!(without_tests(manifest), "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n");
        let target = "[target.'cfg(unix)'.dev-dependencies]\nb = \"1\"\n[dependencies]\nc = \"1\"\n";
        assert_eq!(without_tests(target), "[dependencies]\nc = \"1\"\n");
    }
}
