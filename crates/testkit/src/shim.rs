//! Preloaded libraries for effects that safe code cannot cause: they move a process's clocks, fork it, or
//! count its allocations.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// The library in which `sync()` forks.
pub fn fork() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("fork", include_str!("../shim/fork.c")))
}

/// The library that counts allocated bytes.
pub fn heap() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile("heap", include_str!("../shim/heap.c")))
}

/// Clocks of the processes that are started with them.
pub struct Clocks {
    folder: TempDir,
    offsets: File,
}

impl Clocks {
    /// Clocks that show the correct time until they are moved.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let offsets = File::create(folder.path().join("offsets")).expect("the folder is ours");
        offsets.set_len(16).expect("the file is ours");
        Self { folder, offsets }
    }

    /// The library that applies the offsets.
    pub fn library(&self) -> &'static Path {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        LIBRARY.get_or_init(|| compile("clock", include_str!("../shim/clock.c")))
    }

    /// The environment variable that tells the library where the offsets are.
    pub fn variable(&self) -> (&'static str, PathBuf) {
        ("TESTKIT_CLOCKS", self.folder.path().join("offsets"))
    }

    /// Sets the offset of the wall clock.
    pub fn move_wall(&self, millis: i64) {
        self.set(0, millis);
    }

    /// Sets the offset of the time since boot.
    pub fn move_boot(&self, millis: i64) {
        self.set(8, millis);
    }

    fn set(&self, at: u64, millis: i64) {
        self.offsets.write_all_at(&(millis * 1_000_000).to_ne_bytes(), at).expect("the file is ours");
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}

/// Compiles the library beside the test's own binary. It is renamed once it is complete, because another test
/// may be compiling the same library.
fn compile(name: &str, source: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().expect("a file has a folder");
    let making = TempDir::new_in(folder).expect("the build's folder can be written");
    let (code, made) = (making.path().join("shim.c"), making.path().join("shim.so"));
    std::fs::write(&code, source).expect("the folder is ours");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).args([&made, &code]);
    assert!(compiler.status().expect("a C compiler is there").success(), "{name}.c does not compile");
    let library = folder.join(format!("testkit_{name}.so"));
    std::fs::rename(made, &library).expect("the build's folder can be written");
    library
}
