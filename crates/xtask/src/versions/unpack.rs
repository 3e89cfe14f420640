//! Unpacks a package of another Debian release, with all its dependencies, into a folder. The machine's own
//! packages and package lists are not touched.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of a release's libraries, below the root.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "usr/lib"];
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const ELF: &[u8] = b"\x7fELF";

/// Returns the version of the package. The programs are patched to run with the libraries of their own
/// release.
pub(super) fn unpack(
    root: &Path,
    release: &str,
    package: &str,
    programs: &[(&str, &str)],
) -> io::Result<String> {
    let apt = Apt::new(root.join("apt"), release)?;
    apt.run(&["update"])?;
    // Removes older versions of an earlier download.
    apt.run(&["autoclean"])?;
    apt.run(&["--download-only", "--yes", "install", package])?;
    let archives = archives(&root.join("apt/cache/archives"))?;
    let version = archives.iter().find_map(|archive| version_of(archive, package));
    let version = version.ok_or_else(|| io::Error::other(format!("{package} was not downloaded")))?;
    // A folder that was already unpacked from exactly these packages stays as it is.
    let names: Vec<_> = archives.iter().filter_map(|archive| archive.file_name()?.to_str()).collect();
    let (names, record) = (names.join("\n"), root.join("unpacked"));
    if fs::read_to_string(&record).is_ok_and(|before| before == names) {
        return Ok(version);
    }
    for archive in &archives {
        run(Command::new("dpkg").arg("-x").args([archive.as_path(), root]))?;
    }
    for (_, program) in programs {
        let program = root.join(program);
        let mut beginning = [0; 4];
        fs::File::open(&program)?.read_exact(&mut beginning)?;
        if beginning == ELF && root.join(LOADER).exists() {
            let libraries = LIBRARIES.map(|folder| root.join(folder).display().to_string()).join(":");
            let mut patch = Command::new("patchelf");
            patch.arg("--set-interpreter").arg(root.join(LOADER));
            // rpath instead of runpath, because it also applies to the dependencies of libraries.
            run(patch.args(["--force-rpath", "--set-rpath", &libraries]).arg(&program))?;
        }
    }
    fs::write(record, names)?;
    Ok(version)
}

/// `apt-get` with a state of its own, in which no package is installed.
struct Apt {
    settings: Vec<String>,
}

impl Apt {
    fn new(state: PathBuf, release: &str) -> io::Result<Self> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(state.join(folder))?;
        }
        fs::write(state.join("status"), "")?;
        let (sources, mirror) = (state.join("sources.list"), mirror()?);
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        fs::write(&sources, format!("deb [signed-by={keys}] {mirror} {release} main\n"))?;
        let setting = |name: &str, path: PathBuf| format!("{name}={}", path.display());
        let settings = vec![
            setting("Dir::State", state.clone()),
            setting("Dir::State::Lists", state.join("lists")),
            setting("Dir::State::Status", state.join("status")),
            setting("Dir::Cache", state.join("cache")),
            setting("Dir::Etc::SourceList", sources),
            "Dir::Etc::SourceParts=-".to_owned(),
            "APT::Install-Recommends=false".to_owned(),
            // The user `_apt` may not be able to read this folder.
            "APT::Sandbox::User=root".to_owned(),
        ];
        Ok(Self { settings })
    }

    fn run(&self, arguments: &[&str]) -> io::Result<()> {
        let mut command = Command::new("apt-get");
        command.arg("-qq");
        self.settings.iter().for_each(|setting| {
            command.args(["-o", setting]);
        });
        run(command.args(arguments))
    }
}

/// The Debian mirror of this machine.
fn mirror() -> io::Result<String> {
    let mut command = Command::new("apt-get");
    let output = command.args(["indextargets", "--format", "$(REPO_URI) $(LABEL)"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| line.strip_suffix(" Debian").map(str::to_owned));
    found.ok_or_else(|| io::Error::other("this machine gets no packages from a mirror of Debian"))
}

fn archives(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut archives: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    archives.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    archives.sort();
    Ok(archives)
}

/// The version in the name of an archive `PACKAGE_VERSION_ARCHITECTURE.deb`, without Debian's revision and
/// the epoch.
fn version_of(archive: &Path, package: &str) -> Option<String> {
    let rest = archive.file_name()?.to_str()?.strip_prefix(package)?.strip_prefix('_')?;
    let version = rest.split('_').next()?;
    let upstream = version.rsplit_once("%3a").map_or(version, |(_, rest)| rest);
    Some(upstream.split(['-', '+']).next()?.to_owned())
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let program = command.get_program().display();
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}\n{errors}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_of_the_archive() {
        let version = |name: &str, package| version_of(Path::new(name), package);
        assert_eq!(
            version("/a/mariadb-server_1%3a11.8.6-0+deb13u1_amd64.deb", "mariadb-server").as_deref(),
            Some("11.8.6")
        );
        assert_eq!(version("etcd-server_3.5.30-1+b3_amd64.deb", "etcd-server").as_deref(), Some("3.5.30"));
        assert_eq!(version("etcd-server_3.5.30-1+b3_amd64.deb", "etcd"), None);
    }
}
