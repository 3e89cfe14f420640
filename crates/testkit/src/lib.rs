//! The proof of the locks: engines under test, the conformance cases of every engine, and the faults that an
//! engine must survive.
//!
//! To add an engine, write a [`Fixture`] in `fixtures/` and add its line to [`for_each_engine!`].

pub mod budget;
pub mod cases;
mod cell_file;
pub mod cell_history;
pub mod drop_at_poll;
pub mod faulty_engine;
pub mod fixture;
pub mod fixtures;
pub mod guarantees_page;
pub mod harness;
pub mod history;
pub mod log_capture;
pub mod memory_probe;
pub mod network;
pub mod plain_sql_client;
pub mod python;
pub mod recording_engine;
pub mod requests;
pub mod scenarios;
pub mod scripted_process;
pub mod seed;
pub mod servers;
pub mod shim;
pub mod simulation;
pub mod store;
pub mod unclean_exit;
pub mod unreachable_claims;
pub mod worker_process;
pub mod workload;

pub use fixture::Fixture;

/// Calls a macro with every engine's fixture: `run!(Fixture)`.
#[macro_export]
macro_rules! for_each_engine {
    ($run:ident) => {
        $run!($crate::fixtures::MemoryFixture);
        $run!($crate::fixtures::SqliteFixture);
        $run!($crate::fixtures::EtcdFixture);
        $run!($crate::fixtures::MemcachedFixture);
        $run!($crate::fixtures::MariadbFixture);
        $run!($crate::fixtures::MariadbSessionFixture);
        $run!($crate::fixtures::MariadbInsertFixture);
        $run!($crate::fixtures::PostgresFixture);
        $run!($crate::fixtures::PostgresSessionFixture);
        $run!($crate::fixtures::PgbouncerFixture);
        $run!($crate::fixtures::PostgresInsertFixture);
        $run!($crate::fixtures::RedisFixture);
        $run!($crate::fixtures::RedlockFixture);
        $run!($crate::fixtures::ZooKeeperFixture);
        $run!($crate::fixtures::ZooKeeperSingleFixture);
    };
}
