//! The nodes of those who hold or wait: their names, their order, and who stands in whose way.

use crate::engine::{ClaimId, Mode};

/// The name that Curator gives to nodes begins so.
const PREFIX: &str = "_c_";
/// What stands before the digits, and what it means. The first three are what we write.
const KINDS: [(&str, Kind); 6] = [
    ("-lock-", Kind::Exclusive),
    ("-__WRIT__", Kind::Write),
    ("-__READ__", Kind::Read),
    ("__rlock__", Kind::Read),
    ("__lock__", Kind::Exclusive),
    ("lock-", Kind::Exclusive),
];

/// What a node is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Exclusive,
    Write,
    Read,
    /// One of so many permits.
    Permit {
        of: u32,
    },
    /// Some other client's. To be safe, nobody may hold beside it.
    Unknown,
}

impl Kind {
    /// The number of permits, if it is for one of them.
    pub(super) fn permits(self) -> Option<u32> {
        match self {
            Self::Permit { of } => Some(of),
            _ => None,
        }
    }

    /// The kind and the number of a node of this name; `None` if it is not somebody who holds or waits.
    pub(super) fn of(name: &str) -> Option<(Self, i32)> {
        let known = KINDS.iter().find_map(|(mark, kind)| {
            let (_, digits) = name.rsplit_once(mark)?;
            Some((*kind, sequence(digits)?))
        });
        known.or_else(|| permit(name)).or_else(|| {
            let digits = name.get(name.len().checked_sub(10)?..)?;
            Some((Self::Unknown, sequence(digits)?))
        })
    }
}

/// What stands between the claim and the number of permits.
const PERMIT: &str = "-permit-";

fn permit(name: &str) -> Option<(Kind, i32)> {
    let (of, digits) = name.rsplit_once(PERMIT)?.1.split_once('-')?;
    Some((Kind::Permit { of: of.parse().ok()? }, sequence(digits)?))
}

/// Ten digits; or, after two thousand million nodes, a number below zero.
fn sequence(digits: &str) -> Option<i32> {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let fits = digits.len() == 10 || (digits.len() == 11 && digits.starts_with('-'));
    (fits && plain.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// One who holds or waits, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) sequence: i32,
}

impl Contender {
    pub(super) fn of(name: &str) -> Option<Self> {
        let (kind, sequence) = Kind::of(name)?;
        Some(Self { name: name.to_owned(), kind, sequence })
    }

    /// Whether it came before the other. The server counts past the greatest number, and from the least on.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.sequence.wrapping_sub(other.sequence) < 0
    }

    pub(super) fn is_permit(&self) -> bool {
        matches!(self.kind, Kind::Permit { .. })
    }

    /// Whether the two cannot hold together.
    fn excludes(&self, other: &Self) -> bool {
        (self.kind, other.kind) != (Kind::Read, Kind::Read)
    }

    /// The claim it belongs to, if its name has one: as we and Curator write it, or as kazoo does.
    pub(super) fn id(&self) -> Option<ClaimId> {
        let name = self.name.strip_prefix(PREFIX).unwrap_or(&self.name);
        let digits: String = name.chars().filter(|c| *c != '-').take(32).collect();
        if digits.len() != 32 || !digits.is_ascii() {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes = (0..16).map(byte).collect::<Option<Vec<_>>>()?;
        Some(ClaimId::from_bytes(bytes.try_into().ok()?))
    }
}

/// All who hold or wait, in the order of their arrival.
pub(super) fn in_order(children: &[String]) -> Vec<Contender> {
    let mut contenders: Vec<_> = children.iter().filter_map(|name| Contender::of(name)).collect();
    if let Some(reference) = contenders.first().map(|first| first.sequence) {
        contenders.sort_by_key(|contender| contender.sequence.wrapping_sub(reference));
    }
    contenders
}

/// Who stands in the way of `mine`, in order: it holds when there is nobody. Of permits these are the nearest, as many as
/// there are permits: while all of them are there, none is left.
pub(super) fn in_the_way(contenders: &[Contender], mine: &Contender) -> Vec<Contender> {
    let before = contenders.iter().filter(|other| other.is_before(mine)).cloned();
    let Kind::Permit { of } = mine.kind else {
        return before.filter(|other| other.excludes(mine)).collect();
    };
    let (mut permits, others): (Vec<_>, Vec<_>) = before.partition(Contender::is_permit);
    if !others.is_empty() {
        return others;
    }
    let spare = permits.len().checked_sub(of as usize);
    spare.map_or_else(Vec::new, |spare| permits.split_off(spare))
}

/// Of those in the way, whose leaving says that it is worth looking again: the nearest; or any, if one permit is enough.
pub(super) fn to_watch<'a>(ahead: &'a [Contender], mine: &Contender) -> &'a [Contender] {
    match mine.is_permit() && ahead.iter().all(Contender::is_permit) {
        true => ahead,
        false => &ahead[ahead.len().saturating_sub(1)..],
    }
}

/// The number of permits that the first of those who want one has named, if that is not this node.
pub(super) fn first_permit(children: &[String], node: &str) -> Option<Mode> {
    let first = in_order(children).into_iter().find(Contender::is_permit)?;
    match first.kind {
        Kind::Permit { of } if first.name != node => Some(Mode::Permit { of }),
        _ => None,
    }
}

/// How many of those of these kinds, who stand in this order, hold: the first, and readers or permits beside it.
pub(super) fn holders(mut kinds: impl Iterator<Item = Kind>) -> usize {
    match kinds.next() {
        None => 0,
        Some(Kind::Read) => 1 + kinds.take_while(|kind| *kind == Kind::Read).count(),
        Some(Kind::Permit { of }) => {
            let beside = kinds.take(of.saturating_sub(1) as usize);
            1 + beside.take_while(|kind| matches!(kind, Kind::Permit { .. })).count()
        }
        Some(_) => 1,
    }
}

/// The name of a claim's node, before the server adds its digits. `None` for a mode that it cannot have.
pub(super) fn name_of(id: ClaimId, mode: Mode) -> Option<String> {
    let wanted = match mode {
        Mode::Exclusive => Kind::Exclusive,
        Mode::Write => Kind::Write,
        Mode::Read => Kind::Read,
        Mode::Permit { of } => return Some(format!("{}{PERMIT}{of}-", prefix_of(id))),
    };
    let (mark, _) = KINDS.iter().find(|(_, kind)| *kind == wanted)?;
    Some(format!("{}{mark}", prefix_of(id)))
}

/// What the names of a claim's nodes begin with, whatever its kind: lost replies are resolved by it.
pub(super) fn prefix_of(id: ClaimId) -> String {
    let digits = id.to_string();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("{PREFIX}{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "_c_00112233-4455-6677-8899-aabbccddeeff";

    fn names(contenders: &[Contender]) -> Vec<i32> {
        contenders.iter().map(|contender| contender.sequence).collect()
    }

    #[test]
    fn nodes_are_named_as_curator_names_them_and_known_by_any_client_s_name() {
        let id = ClaimId::from_bytes([
            0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
        ]);
        assert_eq!(name_of(id, Mode::Exclusive).unwrap(), format!("{UUID}-lock-"));
        assert_eq!(name_of(id, Mode::Write).unwrap(), format!("{UUID}-__WRIT__"));
        assert_eq!(name_of(id, Mode::Read).unwrap(), format!("{UUID}-__READ__"));
        assert_eq!(name_of(id, Mode::Permit { of: 2 }).unwrap(), format!("{UUID}-permit-2-"));
        for (name, kind, sequence) in [
            ("_c_x-lock-0000000007", Kind::Exclusive, 7),
            ("lock-0000000007", Kind::Exclusive, 7),
            ("00112233445566778899aabbccddeeff__lock__0000000012", Kind::Exclusive, 12),
            ("x__rlock__0000000012", Kind::Read, 12),
            ("x-__READ__2147483647", Kind::Read, i32::MAX),
            ("x-__WRIT__-2147483648", Kind::Write, i32::MIN),
            ("_c_x-lock--000000005", Kind::Exclusive, -5),
            ("_c_x-permit-12-0000000007", Kind::Permit { of: 12 }, 7),
            ("_c_x-permit-1--000000007", Kind::Permit { of: 1 }, -7),
            ("member_0000000001", Kind::Unknown, 1),
        ] {
            assert_eq!(Kind::of(name), Some((kind, sequence)), "{name}");
        }
        for other in ["b", "leases", "x-lock-", "x-lock-123", "x-lock-000000000%30", "é000000000"] {
            assert_eq!(Kind::of(other), None, "{other}");
        }
        for name in
            [format!("{UUID}-lock-0000000001"), "00112233445566778899aabbccddeeff__lock__0000000012".into()]
        {
            assert_eq!(Contender::of(&name).unwrap().id(), Some(id), "{name}");
        }
        assert_eq!(Contender::of("lock-0000000007").unwrap().id(), None);
    }

    #[test]
    fn readers_wait_for_writers_only_and_never_for_who_came_later() {
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
        let ahead = |at: usize| names(&in_the_way(&all, &all[at]));
        assert_eq!([ahead(0), ahead(1), ahead(2), ahead(3)], [vec![], vec![1], vec![2], vec![1, 2, 3]]);
        let holding = |some: &[usize]| holders(some.iter().map(|at| all[*at].kind));
        assert_eq!([holding(&[0, 1, 2]), holding(&[1, 2]), holding(&[0, 2, 3]), holding(&[])], [1, 1, 2, 0]);
    }

    #[test]
    fn as_many_permits_hold_as_there_are_and_the_next_watch_as_many() {
        let kinds = ["permit-2-", "permit-2-", "permit-2-", "permit-2-", "lock-", "permit-2-"];
        let listing: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| format!("x-{kind}{at:010}")).collect();
        let all = in_order(&listing);
        let ahead = |at: usize| names(&in_the_way(&all, &all[at]));
        assert_eq!([ahead(0), ahead(1), ahead(2), ahead(3)], [vec![], vec![], vec![0, 1], vec![1, 2]]);
        assert_eq!([ahead(4), ahead(5)], [vec![0, 1, 2, 3], vec![4]], "nobody overtakes");
        let watched = |at: usize| names(to_watch(&in_the_way(&all, &all[at]), &all[at]));
        assert_eq!([watched(3), watched(4), watched(5)], [vec![1, 2], vec![3], vec![4]]);
        assert_eq!(holders(all.iter().map(|one| one.kind)), 2);
        assert_eq!(first_permit(&listing, &all[3].name), Some(Mode::Permit { of: 2 }));
        assert_eq!(first_permit(&listing, &all[0].name), None);
    }

    #[test]
    fn the_order_survives_the_overflow_of_the_server_s_counter() {
        let listing = ["a-lock--2147483648", "b-lock-2147483647", "c-lock-2147483646"].map(str::to_owned);
        let all = in_order(&listing);
        assert_eq!(names(&all), [2147483646, 2147483647, -2147483648]);
        assert_eq!(in_the_way(&all, &all[2]).len(), 2);
        assert_eq!(in_the_way(&all, &all[0]).len(), 0);
    }
}
