//! What the figures are to reach.

use super::{Engine, Side, Workload};

/// What one side is to reach in one workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) side: Side,
    pub(crate) what: What,
    pub(crate) bound: Bound,
}

/// What is bounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The first figure, divided by that of a floor.
    Ratio(Side),
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
    if engine != Engine::Redis {
        return Vec::new();
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

fn of_flavor(workload: Workload, [ours, unpassed, scripts, bare, blpop]: [Side; 5]) -> Vec<Goal> {
    use Bound::{Least, Most, MostFigure};
    use What::{Figure, Ratio};
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
