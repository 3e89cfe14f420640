//! Which engine: the flags, the environment, or this user's own database.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use latchwork::engine::EngineUrl;

use crate::cli::TargetOptions;
use crate::failure::{Failure, UNUSABLE, USAGE};
use crate::voice::Voice;

const SYSTEM_FOLDER: &str = "/var/lib/latchwork";
const SYSTEM_URL: &str = "sqlite:/var/lib/latchwork/locks.db";
pub(crate) const URL_VARIABLE: &str = "LATCH_URL";
pub(crate) const URL_FILE_VARIABLE: &str = "LATCH_URL_FILE";

/// The engine to use, and where its URL came from.
pub(crate) struct Target {
    pub(crate) url: EngineUrl,
    pub(crate) text: String,
    /// The file the URL was read from.
    pub(crate) file: Option<PathBuf>,
    /// Which flag or variable named it; "default" if none did.
    pub(crate) origin: &'static str,
}

impl Target {
    /// Flags beat the environment; a file beats a URL there, because it may hold the password that the URL lacks.
    pub(crate) fn choose(options: &TargetOptions, voice: Voice) -> Result<Self, Failure> {
        match (&options.url, &options.url_file, options.system) {
            (None, None, false) => Self::from_environment(),
            (Some(url), None, false) => Self::from_argument(url, voice),
            (None, Some(file), false) => Self::from_file(file, "--url-file"),
            (None, None, true) => Self::of_the_system(),
            _ => Err(Failure::new(USAGE, "--url, --url-file and --system exclude each other")
                .hint("give one of them")),
        }
    }

    fn new(text: &str, origin: &'static str) -> Result<Self, Failure> {
        Ok(Self { url: text.parse()?, text: text.to_owned(), file: None, origin })
    }

    fn from_environment() -> Result<Self, Failure> {
        let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
        if let Some(file) = set(URL_FILE_VARIABLE) {
            return Self::from_file(Path::new(&file), URL_FILE_VARIABLE);
        }
        match set(URL_VARIABLE).map(OsString::into_string) {
            None => Self::new("sqlite:", "default"),
            Some(Ok(text)) => Self::new(&text, URL_VARIABLE),
            Some(Err(_)) => Err(Failure::new(USAGE, format!("{URL_VARIABLE} is not UTF-8"))),
        }
    }

    fn from_argument(text: &str, voice: Voice) -> Result<Self, Failure> {
        let target = Self::new(text, "--url")?;
        if target.url.password().is_some() {
            voice.warn("a password in --url shows in ps; put the URL into a file and use --url-file");
        }
        Ok(target)
    }

    /// No message may quote the content: it can contain a password.
    fn from_file(path: &Path, origin: &'static str) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::new(USAGE, format!("cannot read the URL file {path:?}: {error}")))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            let hint = "write one line into it, for example sqlite:/path/locks.db";
            return Err(Failure::new(USAGE, format!("the URL file {path:?} is empty")).hint(hint));
        }
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { file: Some(absolute), ..Self::new(text, origin)? })
    }

    fn of_the_system() -> Result<Self, Failure> {
        if !Path::new(SYSTEM_FOLDER).exists() {
            make_system_folder()?;
        }
        Self::new(SYSTEM_URL, "--system")
    }
}

/// Only for root itself: who else may use it is the administrator's decision.
fn make_system_folder() -> Result<(), Failure> {
    let missing = format!("the machine-wide folder {SYSTEM_FOLDER} is missing");
    if !nix::unistd::geteuid().is_root() {
        let hint = format!("an administrator makes it: install -d -m 2770 -g GROUP {SYSTEM_FOLDER}");
        return Err(Failure::new(UNUSABLE, missing).hint(hint));
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(SYSTEM_FOLDER);
    made.map_err(|error| Failure::new(UNUSABLE, format!("{missing} and cannot be made: {error}")))
}
