//! A thousand simulated days, each from its seed. `LATCH_SEEDS=N` runs N of them, `LATCH_SEED=N` runs one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use testkit::simulation::{Day, EVENTS, live};

const SEEDS: u64 = 1_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[derive(Default)]
struct Sum {
    days: u64,
    events: usize,
    losses: usize,
    writes: usize,
    reads: usize,
    beside: [usize; 2],
    queued: [usize; 2],
    cancels: usize,
    take_overs: usize,
    days_with_all: u64,
}

impl Sum {
    fn add(&mut self, day: &Day) {
        assert!(day.events >= EVENTS, "only {} events", day.events);
        self.days += 1;
        self.events += day.events;
        self.losses += day.losses;
        self.writes += day.writes;
        self.reads += day.reads;
        for place in 0..2 {
            self.beside[place] += day.beside[place];
            self.queued[place] += day.queued[place];
        }
        self.cancels += day.cancels;
        self.take_overs += day.take_overs;
        self.days_with_all += u64::from(day.losses > 0 && day.cancels > 0 && day.take_overs > 0);
    }
}

#[test]
fn every_seed_keeps_every_promise() {
    let (first, count) = match number("LATCH_SEED") {
        Some(seed) => (seed, 1),
        None => (1, number("LATCH_SEEDS").unwrap_or(SEEDS)),
    };
    let (next, sum) = (AtomicU64::new(first), Mutex::new(Sum::default()));
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + count
                {
                    let day = live(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
                    if count == 1 {
                        day.trace.iter().for_each(|line| println!("{line}"));
                    }
                    sum.lock().expect("no other test panicked").add(&day);
                }
            });
        }
    });
    let Sum { days, events, losses, writes, reads, beside, queued, cancels, take_overs, days_with_all } =
        sum.into_inner().expect("no panic");
    println!(
        "{days} days, {events} events, {losses} losses, {writes} checked writes, {reads} checked reads, \
         {} readers and {} permits beside others, {} known to queue, {} readers while a writer waited, {cancels} cancels, {take_overs} take-overs; \
         {days_with_all} days had all three",
        beside[0], beside[1], queued[0], queued[1]
    );
    let shown = [reads, beside[0], beside[1], queued[0], queued[1]];
    assert!(count == 1 || shown.iter().all(|shown| *shown as u64 * 20 >= days), "too little is judged");
    assert!(count == 1 || days_with_all * 10 >= days, "too little happens in these days");
}

#[test]
fn the_same_seed_gives_the_same_day() {
    for seed in 1..=20 {
        let [one, two] = [(); 2].map(|()| live(seed).unwrap_or_else(|failure| panic!("{failure}")).trace);
        for (line, (one, two)) in one.iter().zip(&two).enumerate() {
            assert_eq!(one, two, "seed {seed}, line {line}");
        }
        assert_eq!(one.len(), two.len());
    }
    assert_ne!(
        live(1).expect("the day keeps every guarantee").trace,
        live(2).expect("the day keeps every guarantee").trace
    );
}
