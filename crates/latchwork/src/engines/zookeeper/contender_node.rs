//! The contenders for a lock: their order, and which of them block each other.

use super::node_kind::{self, NodeKind};
use crate::engine::{ClaimId, Mode};

/// The node of a claim that holds the lock or waits for it, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContenderNode {
    pub(super) name: String,
    pub(super) kind: NodeKind,
    pub(super) sequence: i32,
}

impl ContenderNode {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (kind, sequence) = NodeKind::parse(name)?;
        Some(Self { name: name.to_owned(), kind, sequence })
    }

    /// Whether this node was created before the other. The server's counter overflows from the greatest
    /// number to the least.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.sequence.wrapping_sub(other.sequence) < 0
    }

    pub(super) fn is_permit(&self) -> bool {
        matches!(self.kind, NodeKind::Permit { .. })
    }

    /// Whether the two cannot hold at the same time.
    fn excludes(&self, other: &Self) -> bool {
        (self.kind, other.kind) != (NodeKind::Read, NodeKind::Read)
    }

    /// The claim's id, if the name has one.
    pub(super) fn id(&self) -> Option<ClaimId> {
        node_kind::parse_id(&self.name)
    }
}

/// The contenders among a lock's children, in the order of their creation.
pub(super) fn in_order(children: &[String]) -> Vec<ContenderNode> {
    let mut contenders: Vec<_> = children.iter().filter_map(|name| ContenderNode::parse(name)).collect();
    if let Some(reference) = contenders.first().map(|first| first.sequence) {
        contenders.sort_by_key(|contender| contender.sequence.wrapping_sub(reference));
    }
    contenders
}

/// The contenders that `own` has to wait for, in order. `own` holds the lock if there are none. A permit
/// waits for the nearest permits, as many as there are: while all of them exist, none is free.
pub(super) fn blockers(contenders: &[ContenderNode], own: &ContenderNode) -> Vec<ContenderNode> {
    let before = contenders.iter().filter(|other| other.is_before(own)).cloned();
    let NodeKind::Permit { of } = own.kind else {
        return before.filter(|other| other.excludes(own)).collect();
    };
    let (mut permits, others): (Vec<_>, Vec<_>) = before.partition(ContenderNode::is_permit);
    if !others.is_empty() {
        return others;
    }
    let free = permits.len().checked_sub(of as usize);
    free.map_or_else(Vec::new, |first| permits.split_off(first))
}

/// The blockers to watch: the nearest one. A permit watches all of them, because any of them may free one.
pub(super) fn to_watch<'a>(blockers: &'a [ContenderNode], own: &ContenderNode) -> &'a [ContenderNode] {
    match own.is_permit() && blockers.iter().all(ContenderNode::is_permit) {
        true => blockers,
        false => &blockers[blockers.len().saturating_sub(1)..],
    }
}

/// The mode of the first permit in the queue, unless it is this node.
pub(super) fn first_permit(children: &[String], node: &str) -> Option<Mode> {
    let first = in_order(children).into_iter().find(ContenderNode::is_permit)?;
    match first.kind {
        NodeKind::Permit { of } if first.name != node => Some(Mode::Permit { of }),
        _ => None,
    }
}

/// The number of holders in a queue of these kinds: the first contender, and readers or permits directly
/// behind it.
pub(super) fn count_holders(mut kinds: impl Iterator<Item = NodeKind>) -> usize {
    match kinds.next() {
        None => 0,
        Some(NodeKind::Read) => 1 + kinds.take_while(|kind| *kind == NodeKind::Read).count(),
        Some(NodeKind::Permit { of }) => {
            let beside = kinds.take(of.saturating_sub(1) as usize);
            1 + beside.take_while(|kind| matches!(kind, NodeKind::Permit { .. })).count()
        }
        Some(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(contenders: &[ContenderNode]) -> Vec<i32> {
        contenders.iter().map(|contender| contender.sequence).collect()
    }

    #[test]
    fn readers_wait_for_writers_only_and_no_claim_for_later_ones() {
        let listing = [
            "r-__READ__0000000003",
            "w-__WRIT__0000000002",
            "r-__READ__0000000001",
            "sub",
            "e-lock-0000000004",
        ]
        .map(str::to_owned);
        let all = in_order(&listing);
        assert_eq!(names(&all), [1, 2, 3, 4]);
        let ahead = |at: usize| names(&blockers(&all, &all[at]));
        assert_eq!([ahead(0), ahead(1), ahead(2), ahead(3)], [vec![], vec![1], vec![2], vec![1, 2, 3]]);
        let holding = |some: &[usize]| count_holders(some.iter().map(|at| all[*at].kind));
        assert_eq!([holding(&[0, 1, 2]), holding(&[1, 2]), holding(&[0, 2, 3]), holding(&[])], [1, 1, 2, 0]);
    }

    #[test]
    fn as_many_permits_hold_as_there_are_and_the_next_watch_as_many() {
        let kinds = ["permit-2-", "permit-2-", "permit-2-", "permit-2-", "lock-", "permit-2-"];
        let listing: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| format!("x-{kind}{at:010}")).collect();
        let all = in_order(&listing);
        let ahead = |at: usize| names(&blockers(&all, &all[at]));
        assert_eq!([ahead(0), ahead(1), ahead(2), ahead(3)], [vec![], vec![], vec![0, 1], vec![1, 2]]);
        assert_eq!([ahead(4), ahead(5)], [vec![0, 1, 2, 3], vec![4]], "no claim overtakes");
        let watched = |at: usize| names(to_watch(&blockers(&all, &all[at]), &all[at]));
        assert_eq!([watched(3), watched(4), watched(5)], [vec![1, 2], vec![3], vec![4]]);
        assert_eq!(count_holders(all.iter().map(|one| one.kind)), 2);
        assert_eq!(first_permit(&listing, &all[3].name), Some(Mode::Permit { of: 2 }));
        assert_eq!(first_permit(&listing, &all[0].name), None);
    }

    #[test]
    fn the_order_survives_the_overflow_of_the_server_s_counter() {
        let listing = ["a-lock--2147483648", "b-lock-2147483647", "c-lock-2147483646"].map(str::to_owned);
        let all = in_order(&listing);
        assert_eq!(names(&all), [2147483646, 2147483647, -2147483648]);
        assert_eq!(blockers(&all, &all[2]).len(), 2);
        assert_eq!(blockers(&all, &all[0]).len(), 0);
    }
}
