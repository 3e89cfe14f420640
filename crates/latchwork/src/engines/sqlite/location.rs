//! The place of a lock database, and whether it can be used.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statfs::{self, FsType};

use super::errors::unusable;
use super::session::chown_to_owner_of;
use crate::{Error, ErrorKind, Result};

/// A database file, the folder of its sessions beside it, and their permissions.
#[derive(Clone, Debug)]
pub(super) struct Location {
    pub(super) database: PathBuf,
    pub(super) sessions: PathBuf,
    /// The path of the database relative to the folder of sessions.
    pub(super) database_from_sessions: PathBuf,
    /// The mode of the database and of every FIFO: open to the group if the folder is, and never to other
    /// users.
    pub(super) file_mode: u32,
}

impl Location {
    /// The database of `sqlite:` without a path. It depends on the user alone, and not on XDG variables,
    /// which differ between a login shell and cron, so that all processes of the user respect the same locks.
    pub(super) fn of_this_user() -> Result<Self> {
        let (home, database) = home_and_database()?;
        // The home of a service user often does not exist, and root would create it here.
        if !home.is_dir() {
            let message = format!(
                "HOME is {home:?}, which is no folder, so there is no place for this user's locks; name a database instead, \
                 for example sqlite:/var/tmp/locks.db"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let folder = database.parent().unwrap_or(&home).to_owned();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| unusable(&folder, error))?;
        let found = fs::symlink_metadata(&folder).map_err(|error| unusable(&folder, error))?;
        let me = nix::unistd::geteuid().as_raw();
        if !found.is_dir() || found.uid() != me {
            let message = format!(
                "{folder:?} is not a folder of user {me}; if HOME is another user's (sudo keeps it), use sudo -H or name a database"
            );
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Self::at(&database)
    }

    /// A database at `path`, whose folder must exist.
    pub(super) fn at(path: &Path) -> Result<Self> {
        let Some(file) = path.file_name() else {
            return Err(Error::new(ErrorKind::Invalid, format!("{path:?} does not name a file")));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Resolved once. Links in the path are allowed; a link in place of the file itself is refused later.
        let folder = fs::canonicalize(parent).map_err(|error| unusable(parent, error))?;
        let mode = fs::metadata(&folder).map_err(|error| unusable(&folder, error))?.permissions().mode();
        refuse_network(&folder)?;
        let group_shares = mode & 0o020 != 0 && mode & 0o002 == 0;
        let mut sessions = file.to_owned();
        sessions.push("-sessions");
        Ok(Self {
            database: folder.join(file),
            database_from_sessions: Path::new("..").join(file),
            sessions: folder.join(sessions),
            file_mode: if group_shares { 0o660 } else { 0o600 },
        })
    }

    /// Creates the folder of sessions.
    pub(super) fn prepare(&self) -> Result<()> {
        let mode = if self.file_mode == 0o660 { 0o2770 } else { 0o700 };
        match DirBuilder::new().mode(mode).create(&self.sessions) {
            Ok(()) => fs::set_permissions(&self.sessions, fs::Permissions::from_mode(mode)).and_then(|()| {
                chown_to_owner_of(self.database.parent().unwrap_or(Path::new("/")), &self.sessions)
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(|error| unusable(&self.sessions, error))
    }
}

/// The home of this user, and the path of the database in it. Neither need exist.
pub(super) fn home_and_database() -> Result<(PathBuf, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let Some(home) = home else {
        let message = "HOME is not set, so there is no folder for this user's locks; name a database instead, \
                       for example sqlite:/var/tmp/locks.db";
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    let database = home.join(".local/state/latchwork/locks.db");
    Ok((home, database))
}

/// Refuses network file systems. File locks and FIFOs work within one machine only, so two machines could
/// both hold the lock.
fn refuse_network(folder: &Path) -> Result<()> {
    const NETWORK: [(FsType, &str); 9] = [
        (statfs::NFS_SUPER_MAGIC, "NFS"),
        (statfs::SMB_SUPER_MAGIC, "SMB"),
        (FsType(0xFF53_4D42), "CIFS"),
        (FsType(0xFE53_4D42), "SMB2"),
        (statfs::CODA_SUPER_MAGIC, "Coda"),
        (statfs::AFS_SUPER_MAGIC, "AFS"),
        (FsType(0x00C3_6400), "Ceph"),
        (FsType(0x0BD0_0BD0), "Lustre"),
        (FsType(0x0102_1997), "9p"),
    ];
    let kind = statfs::statfs(folder).map_err(|error| unusable(folder, error.into()))?.filesystem_type();
    match NETWORK.iter().find(|(network, _)| *network == kind) {
        None => Ok(()),
        Some((_, name)) => {
            let message = format!(
                "{folder:?} is on a network file system ({name}), which cannot lock between machines; use a local path"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}
