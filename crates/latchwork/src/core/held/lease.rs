//! The lease of a held claim: when it must be renewed, and when it stops being certain. Pure: no I/O, no
//! clock of its own.

use std::time::Duration;

use crate::Loss;
use crate::clock::Moment;
use crate::core::defaults;
use crate::core::terms::LeaseTerms;
use crate::engine::{Renewal, Valid};

/// The lease of one held claim, as this side may rely on it. Once lost, it stays lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalLease {
    terms: LeaseTerms,
    /// From when the lease is counted.
    start: Moment,
    deadline: Moment,
    /// When the margin before the end of the lease begins.
    margin_at: Moment,
    /// When `max_hold` is over.
    limit: Moment,
    at_risk: bool,
    lost: Option<Loss>,
}

impl LocalLease {
    /// A claim granted by the answer to a request sent at `sent`.
    pub(crate) fn granted(valid: Valid, sent: Moment, now: Moment, terms: LeaseTerms) -> Self {
        let (start, deadline, margin_at, limit) = (sent, sent, sent, Moment::NEVER);
        let mut lease = Self { terms, start, deadline, margin_at, limit, at_risk: false, lost: None };
        lease.set(valid, sent, now);
        lease.begin_turn(now);
        lease
    }

    /// Another guard holds the claim from now on.
    pub(crate) fn begin_turn(&mut self, now: Moment) {
        self.limit = self.terms.max_hold.map_or(Moment::NEVER, |most| now.after(most));
    }

    /// Counted from before the request was sent (C4), less drift where two clocks are involved.
    fn set(&mut self, valid: Valid, sent: Moment, now: Moment) {
        (self.start, self.deadline) = match valid {
            Valid::For(span) => (sent, sent.after(defaults::less_drift(span))),
            Valid::Until(moment) => (now, moment),
        };
        let margin = defaults::stop_margin(self.span(), self.terms.stop_margin);
        self.margin_at = self.deadline.before(margin);
    }

    /// When the lease ends, as far as this side can rely on it.
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// When the holder is told to stop if no renewal succeeds before.
    pub(crate) fn stop_at(&self) -> Moment {
        self.margin_at.min(self.limit)
    }

    /// Why the claim is lost at `now`, if it is. The loss is remembered.
    pub(crate) fn loss(&mut self, now: Moment) -> Option<Loss> {
        self.lost = self.loss_at(now);
        self.lost
    }

    /// Why the claim is lost at `now`, if it is. The loss is not remembered.
    pub(crate) fn loss_at(&self, now: Moment) -> Option<Loss> {
        self.lost.or(match now {
            // No clock of this boot goes back: the process was moved to another.
            now if now < self.start => Some(Loss::Copied),
            now if now >= self.limit => Some(Loss::HeldTooLong),
            now if now < self.stop_at() => None,
            _ if self.at_risk => Some(Loss::Unreachable),
            _ => Some(Loss::Expired),
        })
    }

    /// The remembered loss, if there is one. [`LocalLease::loss`] also checks the time.
    pub(crate) fn found_lost(&self) -> Option<Loss> {
        self.lost
    }

    /// The claim is lost for a reason that no engine reports.
    pub(crate) fn lose(&mut self, why: Loss) {
        self.lost.get_or_insert(why);
    }

    /// When to send the next renewal. `jitter` is any byte, drawn at random.
    pub(crate) fn renew_at(&self, now: Moment, jitter: u8) -> Moment {
        if self.at_risk {
            // Retry soon, and sooner the less time there is, but never past the deadline.
            return now.after(self.stop_at().since(now).min(self.terms.ttl) / 8);
        }
        // In whole nanoseconds, which is cheap: this runs for every lock.
        let interval = nanos(self.span()) / u64::from(defaults::RENEW_AFTER);
        let spread = interval / u64::from(defaults::RENEW_JITTER);
        let late = spread.saturating_mul(2 * u64::from(jitter)) / 255;
        self.start.after(Duration::from_nanos(interval - spread + late)).min(self.stop_at())
    }

    /// How long one renewal request may take, so that there is time for another. `max_hold` does not shorten
    /// it, because other claims are renewed by the same request.
    pub(crate) fn renewal_timeout(&self, now: Moment) -> Duration {
        (self.span() / defaults::RENEW_WITHIN).min(self.margin_at.since(now) / 2)
    }

    /// The granted span. A claim bound to its session has no end, and is renewed as if it had its ttl.
    fn span(&self) -> Duration {
        self.deadline.since(self.start).min(self.terms.ttl)
    }

    /// Applies the answer to a renewal that was sent at `sent`. `None`: there was no answer.
    pub(crate) fn renewed(&mut self, sent: Moment, now: Moment, answer: Option<Renewal>) {
        if self.loss(now).is_some() {
            return; // A late answer never brings a lost claim back to life.
        }
        match answer {
            None => self.at_risk = true,
            Some(Renewal::Lost(why)) => self.lost = Some(why),
            Some(Renewal::Kept(valid)) => {
                self.at_risk = false;
                self.set(valid, sent, now);
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const TERMS: LeaseTerms = LeaseTerms { ttl: TTL, stop_margin: None, max_hold: None };

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1_000)
    }

    fn lease() -> LocalLease {
        LocalLease::granted(Valid::For(TTL), at(1_000), at(1_200), TERMS)
    }

    #[test]
    fn the_deadline_counts_from_the_send_time_less_drift() {
        assert_eq!(lease().deadline(), at(1_000 + 10_000 - 100 - 2));
        assert_eq!(lease().stop_at(), at(1_000 + 9_898).before(Duration::from_micros(989_800)));
    }

    #[test]
    fn it_is_lost_exactly_at_the_stop_margin_and_stays_lost() {
        let mut lease = lease();
        let stop = lease.stop_at();
        assert_eq!(lease.loss(stop.before(Duration::from_nanos(1))), None);
        assert_eq!(lease.loss(stop), Some(Loss::Expired));
        lease.renewed(stop, stop, Some(Renewal::Kept(Valid::For(TTL))));
        assert_eq!(lease.loss(stop), Some(Loss::Expired), "a late renewal must not revive it");
        assert_eq!(lease.loss(at(0)), Some(Loss::Expired), "not even when time seems to go back");
    }

    #[test]
    fn an_unanswered_renewal_keeps_the_old_deadline() {
        let mut lease = lease();
        let old = lease.deadline();
        lease.renewed(at(4_000), at(5_000), None);
        assert_eq!(lease.deadline(), old);
        assert_eq!(lease.loss(lease.stop_at()), Some(Loss::Unreachable));
    }

    #[test]
    fn a_renewal_counts_from_its_own_send_time() {
        let mut lease = lease();
        lease.renewed(at(4_000), at(9_000), Some(Renewal::Kept(Valid::For(TTL))));
        assert_eq!(lease.deadline(), at(4_000 + 9_898));
    }

    #[test]
    fn it_is_due_after_a_third_give_or_take_and_retried_before_the_stop() {
        let mut lease = lease();
        let third = Duration::from_millis(9_898) / 3;
        let (early, late) = (lease.renew_at(at(1_000), 0), lease.renew_at(at(1_000), 255));
        assert_eq!(early, at(1_000).after(third - third / 10));
        assert_eq!(late, at(1_000).after(third - third / 10 + third / 10 * 2));
        lease.renewed(at(4_000), at(5_000), None);
        let mut now = at(5_000);
        for _ in 0..200 {
            now = lease.renew_at(now, 7);
            assert!(now <= lease.stop_at());
        }
    }

    #[test]
    fn a_short_hand_over_lease_leaves_room_to_work() {
        let lease = LocalLease::granted(Valid::Until(at(4_000)), at(10), at(1_000), TERMS);
        assert_eq!(lease.stop_at(), at(3_700));
        let terms = LeaseTerms { stop_margin: Some(Duration::from_secs(60)), ..TERMS };
        let asked = LocalLease::granted(Valid::Until(at(4_000)), at(10), at(1_000), terms);
        assert_eq!(asked.stop_at(), at(2_500), "a requested margin never takes more than half");
    }

    #[test]
    fn however_well_renewals_go_a_guard_holds_no_longer_than_it_wanted() {
        let terms = LeaseTerms { max_hold: Some(Duration::from_secs(30)), ..TERMS };
        let mut lease = LocalLease::granted(Valid::For(TTL), at(1_000), at(1_000), terms);
        for millis in (4_000..=28_000).step_by(3_000) {
            lease.renewed(at(millis), at(millis), Some(Renewal::Kept(Valid::For(TTL))));
        }
        assert_eq!(lease.loss(at(30_999)), None);
        assert!(
            lease.renewal_timeout(at(30_999)) > Duration::from_secs(1),
            "others wait for the same renewal"
        );
        assert_eq!(lease.clone().loss(at(31_000)), Some(Loss::HeldTooLong));
        lease.begin_turn(at(30_999));
        assert_eq!(
            lease.stop_at(),
            at(28_000 + 9_898).before(Duration::from_micros(989_800)),
            "the next guard's"
        );
    }

    #[test]
    fn a_clock_that_goes_back_is_that_of_another_boot() {
        let mut lease = lease();
        assert_eq!(lease.loss(at(999)), Some(Loss::Copied));
        assert_eq!(lease.loss(at(2_000)), Some(Loss::Copied));
    }

    #[test]
    fn a_claim_bound_to_its_session_has_no_end_and_is_still_looked_after() {
        let mut lease = LocalLease::granted(Valid::Until(Moment::NEVER), at(1), at(1), TERMS);
        assert_eq!(lease.renew_at(at(1), 0), at(1).after(TTL / 3 - TTL / 30));
        assert_eq!(lease.loss(at(1_000_000_000_000)), None);
        assert!(lease.renewal_timeout(at(1)) <= TTL);
        lease.renewed(at(5), at(5), None);
        assert!(lease.renew_at(at(5), 0) <= at(5).after(TTL));
        lease.renewed(at(6), at(6), Some(Renewal::Lost(Loss::Revoked)));
        assert_eq!(lease.loss(at(7)), Some(Loss::Revoked));
    }
}
