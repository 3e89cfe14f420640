//! The plan of the measurements: workloads, the sides compared in each, their goals, and the names of all on
//! a command line.

mod goal;
mod side;
mod workload;

use clap::ValueEnum;

pub(crate) use goal::{Bound, Goal, Quantity, goals};
pub(crate) use side::{RuntimeFlavor, Side};
pub(crate) use workload::Workload;

/// The engine of Latchwork's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Memory,
    Redis,
    Redlock,
    Memcached,
    Mariadb,
    Postgres,
    MariadbSession,
    PostgresSession,
    Etcd,
    Zookeeper,
}

/// The name of a value on the command line of a child.
pub(crate) fn spelled(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
