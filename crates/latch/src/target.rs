//! The selection of the engine: by flags, by the environment, or this user's own database.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use latchwork::engine::EngineUrl;
use latchwork::engines::Sqlite;

use crate::cli::TargetOptions;
use crate::environment::{has_secret, shown_url};
use crate::failure::{Failure, UNUSABLE, USAGE};
use crate::output::Output;

const SYSTEM_FOLDER: &str = "/var/lib/latchwork";
const SYSTEM_URL: &str = "sqlite:/var/lib/latchwork/locks.db";
pub(crate) const URL_VARIABLE: &str = "LATCH_URL";
pub(crate) const URL_FILE_VARIABLE: &str = "LATCH_URL_FILE";
/// Set if an outer run removed a password from the URL. The value is the URL without it: a URL that was set
/// later differs, and is not treated as redacted.
pub(crate) const REDACTED_VARIABLE: &str = "LATCH_URL_REDACTED";
/// Creates a folder that several users can share: its files belong to its group, and the group may write.
const INSTALL: &str = "install -d -m 2770 -g GROUP /var/lib/latchwork";
/// Opens an existing folder and its files to a group. Former versions created them for a single user.
const OPEN: &str = "install -d -m 2770 -g GROUP /var/lib/latchwork /var/lib/latchwork/locks.db-sessions && \
                    chgrp -R GROUP /var/lib/latchwork && chmod -R g+rwX /var/lib/latchwork";

/// The engine that a subcommand uses, and the setting that selected it.
pub(crate) struct Target {
    pub(crate) url: EngineUrl,
    pub(crate) text: String,
    /// The file from which the URL was read, if it can be read again.
    pub(crate) file: Option<PathBuf>,
    /// The flag or variable with the URL or its file; "default" without one.
    pub(crate) origin: &'static str,
}

impl Target {
    /// Flags take precedence over the environment. In the environment a file takes precedence over a URL,
    /// because the file may contain the password that the URL lacks.
    pub(crate) fn choose(options: &TargetOptions, output: Output) -> Result<Self, Failure> {
        match (&options.url, &options.url_file, options.system) {
            (None, None, false) => Self::from_environment(output),
            (Some(url), None, false) => Self::from_argument(url, output),
            (None, Some(file), false) => Self::from_file(file, "--url-file", output),
            (None, None, true) => Self::of_the_system(),
            _ => Err(Failure::new(USAGE, "--url, --url-file and --system exclude each other")
                .hint("give one of them")),
        }
    }

    fn new(text: &str, origin: &'static str) -> Result<Self, Failure> {
        let invalid = |error| Failure::from(error).hint(format!("the URL comes from {origin}"));
        let url = text.parse().map_err(invalid)?;
        Ok(Self { url, text: text.to_owned(), file: None, origin })
    }

    fn from_environment(output: Output) -> Result<Self, Failure> {
        let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
        if let Some(file) = set(URL_FILE_VARIABLE) {
            return Self::from_file(Path::new(&file), URL_FILE_VARIABLE, output);
        }
        match set(URL_VARIABLE).map(OsString::into_string) {
            None => Self::new("sqlite:", "default"),
            Some(Ok(text)) => Self::new(&text, URL_VARIABLE),
            Some(Err(_)) => Err(Failure::new(USAGE, format!("the URL in {URL_VARIABLE} is not UTF-8"))),
        }
    }

    fn from_argument(text: &str, output: Output) -> Result<Self, Failure> {
        let target = Self::new(text, "--url")?;
        if has_secret(text) {
            output.warn("a password in --url shows in ps; put the URL into a file and use --url-file");
        }
        Ok(target)
    }

    /// No message may quote the content of the file: it can contain a password.
    fn from_file(path: &Path, origin: &'static str, output: Output) -> Result<Self, Failure> {
        let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let unreadable =
            |error| Failure::new(USAGE, format!("cannot read the URL file {path:?} ({origin}): {error}"));
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let (mut text, found) = (String::new(), file.metadata().map_err(unreadable)?);
        file.read_to_string(&mut text).map_err(unreadable)?;
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            let hint = "write one line into it, for example sqlite:/path/locks.db";
            return Err(Failure::new(USAGE, format!("the URL file {path:?} is empty")).hint(hint));
        }
        let target = Self::new(text, origin).map_err(|failure| failure.hint(in_file(path, origin)))?;
        if found.is_file() && found.permissions().mode() & 0o004 != 0 && has_secret(text) {
            output.warn(&format!("every user can read the password in {path:?}; chmod o-r it"));
        }
        // The content of a pipe (`<(...)`) can be read only once.
        let file = found.is_file().then(|| path.clone());
        Ok(Self { file, ..target })
    }

    fn of_the_system() -> Result<Self, Failure> {
        // Never created here: root would create it for itself alone. Only the administrator knows the group.
        if !Path::new(SYSTEM_FOLDER).is_dir() {
            let missing = format!("the machine-wide folder {SYSTEM_FOLDER} is missing");
            let hint = format!("an administrator creates it once, for a group of users: {INSTALL}");
            return Err(Failure::new(UNUSABLE, missing).hint(hint));
        }
        Self::new(SYSTEM_URL, "--system")
    }

    /// Whether an outer run removed the password from the URL.
    pub(crate) fn is_redacted(&self) -> bool {
        self.file.is_none() && env::var(REDACTED_VARIABLE).is_ok_and(|url| url == self.text)
    }

    /// The database file of `sqlite:`.
    pub(crate) fn database(&self) -> Option<PathBuf> {
        match (self.url.scheme(), self.url.path()) {
            ("sqlite", "") => Sqlite::default_path().ok(),
            ("sqlite", path) => std::path::absolute(path).ok(),
            _ => None,
        }
    }

    /// Equal for URLs of one engine, as far as the URL alone tells.
    pub(crate) fn canonical(&self) -> String {
        match self.database() {
            Some(path) => fs::canonicalize(&path).unwrap_or(path).to_string_lossy().into_owned(),
            None => with_canonical_scheme(shown_url(self)),
        }
    }

    /// The hint for an error of the engine: it names the setting that selected the engine.
    pub(crate) fn hint(&self) -> String {
        if self.is_redacted() {
            return "the URL comes from the outer latch run, which removed the password; give the outer one its URL in \
                    a regular file (--url-file), which the inner one then reads too"
                .to_owned();
        }
        match (self.origin, &self.file) {
            ("--system", _) => format!(
                "--system is for the users of one group; an administrator opens the folder to that group: {OPEN}"
            ),
            (origin, Some(file)) => in_file(file, origin),
            ("default", _) => {
                "choose another database with --url sqlite:/path/locks.db or LATCH_URL=sqlite:/path/locks.db"
                    .to_owned()
            }
            ("--url", _) if self.database().is_some() => {
                "choose another database with --url sqlite:/path/locks.db".to_owned()
            }
            (URL_VARIABLE, _) if self.database().is_some() => {
                format!("choose another database with {URL_VARIABLE}=sqlite:/path/locks.db")
            }
            (origin, _) => format!("the URL comes from {origin}"),
        }
    }
}

/// The URL with the canonical name of its scheme.
fn with_canonical_scheme(url: String) -> String {
    let aliases = [("postgresql", "postgres"), ("mariadb", "mysql")];
    let found = aliases.iter().find_map(|(alias, name)| Some((url.strip_prefix(alias)?, name)));
    found.map_or_else(|| url.clone(), |(rest, name)| format!("{name}{rest}"))
}

fn in_file(path: &Path, origin: &str) -> String {
    format!("the URL is in the file {path:?} ({origin})")
}
