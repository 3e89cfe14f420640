//! What proves the locks: engines under test, the cases every one of them must pass, and the faults they must survive.
//!
//! To add an engine, write a [`Fixture`] in `fixtures/` and add its line to [`for_each_engine!`].

pub mod budget;
pub mod cases;
mod cell_file;
pub mod cell_history;
pub mod company;
pub mod crowd;
pub mod cut;
pub mod diary;
pub mod fixture;
pub mod fixtures;
pub mod flaky;
pub mod guarantees_page;
pub mod history;
pub mod in_vain;
pub mod line;
pub mod play;
pub mod proxy;
pub mod python;
pub mod recorder;
pub mod requests;
pub mod rivals;
pub mod rows;
pub mod seed;
pub mod servers;
pub mod service;
pub mod shim;
pub mod short_process;
pub mod simulation;
pub mod stage;
pub mod store;
pub mod subject;
pub mod victim;
pub mod wire;
pub mod worker;

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
