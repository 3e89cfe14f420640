//! The goals of the figures.

use super::{Engine, Side, Workload};

/// A goal of one side in one workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) side: Side,
    pub(crate) what: Quantity,
    pub(crate) bound: Bound,
}

/// The quantity that a goal bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quantity {
    /// The first figure, divided by that of a floor.
    Ratio(Side),
    /// A figure by its name, divided by the same of a floor.
    RatioOf(&'static str, Side),
    /// A figure by its name.
    Figure(&'static str),
}

/// The bound.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    Most(f64),
    Least(f64),
    /// Another figure of the same side.
    MostFigure(&'static str),
}

/// The goals of a workload on `engine`.
pub(crate) fn goals(engine: Engine, workload: Workload) -> Vec<Goal> {
    match engine {
        Engine::Redis => {}
        Engine::Redlock => return on_redlock(workload),
        Engine::Memcached => return on_memcached(workload),
        Engine::Mariadb => {
            return on_rows(workload, [Side::MariadbMulti, Side::MariadbStatements, Side::MariadbUnpassed]);
        }
        Engine::Postgres => {
            return on_rows(
                workload,
                [Side::PostgresMulti, Side::PostgresStatements, Side::PostgresUnpassed],
            );
        }
        Engine::MariadbSession => return on_sessions(workload, 1.5),
        Engine::PostgresSession => return on_sessions(workload, 3.0),
        Engine::Etcd => return on_etcd(workload),
        Engine::Zookeeper => return on_zookeeper(workload),
        Engine::Sqlite | Engine::Memory => return Vec::new(),
    }
    let both = [
        [Side::RedisMulti, Side::RedisUnpassed, Side::ScriptsMulti, Side::BareMulti, Side::BlpopMulti],
        [
            Side::RedisCurrent,
            Side::RedisUnpassedCurrent,
            Side::ScriptsCurrent,
            Side::BareCurrent,
            Side::BlpopCurrent,
        ],
    ];
    both.into_iter().flat_map(|sides| of_flavor(workload, sides)).collect()
}

fn on_redlock(workload: Workload) -> Vec<Goal> {
    let ours = [Side::RedlockMulti, Side::RedlockCurrent];
    let faster =
        |side, peer| Goal { side, what: Quantity::RatioOf("pairs/s", peer), bound: Bound::Least(1.25) };
    match workload {
        Workload::Free | Workload::Distinct => {
            let both = |side| [Side::Rslock, Side::DistributedLock].map(|peer| faster(side, peer));
            ours.into_iter().flat_map(both).collect()
        }
        _ => Vec::new(),
    }
}

fn on_memcached(workload: Workload) -> Vec<Goal> {
    let goal = |side| Goal { side, what: Quantity::Ratio(Side::MemcachedMeta), bound: Bound::Most(1.15) };
    match workload {
        Workload::Free => vec![goal(Side::MemcachedMulti), goal(Side::MemcachedCurrent)],
        _ => Vec::new(),
    }
}

fn on_rows(workload: Workload, [side, statements, unpassed]: [Side; 3]) -> Vec<Goal> {
    let goal = |floor, bound| Goal { side, what: Quantity::Ratio(floor), bound };
    match workload {
        Workload::Free => vec![goal(statements, Bound::Most(1.15))],
        Workload::Contended => vec![goal(unpassed, Bound::Least(50.0))],
        _ => Vec::new(),
    }
}

fn on_sessions(workload: Workload, than_peer: f64) -> Vec<Goal> {
    use Bound::{Least, Most};
    let both = [Side::SessionMulti, Side::SessionCurrent];
    let of_each = |what, bound| both.map(|side| Goal { side, what, bound }).to_vec();
    match workload {
        Workload::Free => [
            of_each(Quantity::Ratio(Side::SessionBytes), Most(1.15)),
            of_each(Quantity::RatioOf("pairs/s", Side::SessionPeer), Least(than_peer)),
        ]
        .concat(),
        Workload::Contended => of_each(Quantity::Ratio(Side::SessionBlocks), Least(10.0)),
        Workload::HandOver => of_each(Quantity::Ratio(Side::SessionBlocks), Most(1.5)),
        _ => Vec::new(),
    }
}

fn on_etcd(workload: Workload) -> Vec<Goal> {
    use Bound::{Least, Most};
    use Quantity::Ratio;
    let goal = |side, floor, bound| Goal { side, what: Ratio(floor), bound };
    let (ours, unpassed) = (Side::EtcdMulti, Side::EtcdUnpassed);
    match workload {
        Workload::Free => vec![goal(ours, Side::EtcdTxn, Most(1.15))],
        Workload::Contended => {
            vec![goal(ours, Side::EtcdLock, Least(100.0)), goal(unpassed, Side::EtcdLock, Least(4.0))]
        }
        Workload::HandOver => {
            // Also by the mean: of two waiters of etcd's own lock one waits for a tick, which the other does
            // not, so that the median is one or the other by chance.
            let mean = Quantity::RatioOf("mean us", Side::EtcdLock);
            vec![
                goal(ours, Side::EtcdQueue, Most(1.5)),
                goal(ours, Side::EtcdLock, Most(0.05)),
                Goal { side: ours, what: mean, bound: Most(0.05) },
            ]
        }
        _ => Vec::new(),
    }
}

fn on_zookeeper(workload: Workload) -> Vec<Goal> {
    use Bound::{Least, Most};
    let goal = |side, floor, bound| Goal { side, what: Quantity::Ratio(floor), bound };
    let (ours, unpassed, peer) = (Side::ZookeeperMulti, Side::ZookeeperUnpassed, Side::ZookeeperLock);
    match workload {
        Workload::Free => {
            vec![goal(ours, Side::ZookeeperCreate, Most(1.15)), goal(ours, Side::ZookeeperBytes, Most(1.15))]
        }
        Workload::Contended => {
            vec![goal(ours, peer, Least(100.0)), goal(unpassed, peer, Least(1.0))]
        }
        Workload::HandOver => vec![goal(ours, peer, Most(1.0))],
        _ => Vec::new(),
    }
}

fn of_flavor(workload: Workload, [ours, unpassed, scripts, bare, blpop]: [Side; 5]) -> Vec<Goal> {
    use Bound::{Least, Most, MostFigure};
    use Quantity::{Figure, Ratio};
    let goal = |what, bound| Goal { side: ours, what, bound };
    let served = [
        goal(Figure("fewest/process"), Least(1.0)),
        goal(Figure("max wait ms"), MostFigure("goal: at most")),
    ];
    match workload {
        Workload::Free => vec![goal(Ratio(scripts), Most(1.05)), goal(Ratio(bare), Most(1.15))],
        Workload::Distinct => vec![goal(Ratio(scripts), Least(0.95))],
        Workload::Contended => {
            vec![goal(Ratio(blpop), Least(40.0)), goal(Figure("Jain/task"), Least(0.99))]
        }
        Workload::Processes => {
            let never_passed = Goal { side: unpassed, what: Ratio(blpop), bound: Least(0.4) };
            [goal(Ratio(blpop), Least(30.0)), never_passed].into_iter().chain(served).collect()
        }
        Workload::Working => served.to_vec(),
        Workload::HandOver => vec![goal(Ratio(blpop), Most(2.0))],
        Workload::Pair | Workload::Ring => Vec::new(),
    }
}
