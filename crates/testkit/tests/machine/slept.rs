//! A machine that slept, or whose clocks are wrong.

use testkit::scripted_process::ScriptedProcess;
use testkit::shim::Clocks;

use super::harness::{LOCK, LONG, MachineHarness, hold, pause, token};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// Monotonic time, time since boot and wall time, in milliseconds.
async fn clocks(subject: &mut ScriptedProcess) -> [i64; 3] {
    let answer = subject.ask("clocks").await;
    let times: Vec<i64> = answer.split(' ').map(|time| time.parse().expect("milliseconds")).collect();
    times.try_into().expect("three clocks")
}

/// How far each clock moved since `before`, to the minute: tests take seconds.
async fn moved(subject: &mut ScriptedProcess, before: [i64; 3]) -> [i64; 3] {
    let after = clocks(subject).await;
    std::array::from_fn(|clock| (after[clock] - before[clock] + MINUTE / 2).div_euclid(MINUTE))
}

#[tokio::test]
async fn a_machine_that_slept_has_lost_its_locks_and_knows_it_at_the_next_check() {
    let (harness, shim) = (MachineHarness::new().await, Clocks::new());
    let mut subject = ScriptedProcess::with_clocks(&harness.url(), &shim);
    hold(&mut subject, LOCK, &(5 * MINUTE).to_string()).await;
    let before = clocks(&mut subject).await;
    shim.move_boot(10 * MINUTE);
    assert_eq!(subject.ask(&format!("certain {LOCK}")).await, "false");
    assert_eq!(moved(&mut subject, before).await, [0, 10, 0], "the shim moved the time since boot");
    assert_eq!(subject.ask(&format!("lost {LOCK} 10000")).await, "expired late");
    // On the slept machine's own clock, which all of its processes share, the lock is free for the next.
    let mut other = ScriptedProcess::with_clocks(&harness.url(), &shim);
    hold(&mut other, LOCK, LONG).await;
    let error = subject.ask(&format!("release {LOCK}")).await;
    assert!(error.starts_with("Lost: "), "{error}");
    assert_eq!(other.ask(&format!("certain {LOCK}")).await, "true");
    assert_eq!(other.ask(&format!("release {LOCK}")).await, "ok");
}

#[tokio::test]
async fn a_listener_is_told_of_the_loss_after_the_sleep() {
    const TTL: i64 = 3_000;
    let (harness, shim) = (MachineHarness::new().await, Clocks::new());
    let mut subject = ScriptedProcess::with_clocks(&harness.url(), &shim);
    hold(&mut subject, LOCK, &TTL.to_string()).await;
    let before = clocks(&mut subject).await;
    subject.tell(&format!("lost {LOCK} 20000")).await;
    pause(100).await;
    shim.move_boot(10 * MINUTE);
    assert_eq!(subject.answer().await, "expired late");
    assert_eq!(moved(&mut subject, before).await, [0, 10, 0], "the shim moved the time since boot");
}

#[tokio::test]
async fn a_nap_shorter_than_the_lease_loses_nothing() {
    let (harness, shim) = (MachineHarness::new().await, Clocks::new());
    let mut subject = ScriptedProcess::with_clocks(&harness.url(), &shim);
    hold(&mut subject, LOCK, &(20 * MINUTE).to_string()).await;
    let before = clocks(&mut subject).await;
    shim.move_boot(10 * MINUTE);
    assert_eq!(moved(&mut subject, before).await, [0, 10, 0], "the shim moved the time since boot");
    assert_eq!(subject.ask(&format!("certain {LOCK}")).await, "true");
    assert_eq!(subject.ask(&format!("release {LOCK}")).await, "ok");
}

#[tokio::test]
async fn a_process_restored_on_another_boot_is_a_copy() {
    let (harness, shim) = (MachineHarness::new().await, Clocks::new());
    shim.move_boot(20 * MINUTE);
    let mut subject = ScriptedProcess::with_clocks(&harness.url(), &shim);
    hold(&mut subject, LOCK, LONG).await;
    let before = clocks(&mut subject).await;
    shim.move_boot(0);
    assert_eq!(subject.ask(&format!("certain {LOCK}")).await, "false");
    assert_eq!(moved(&mut subject, before).await, [0, -20, 0], "the shim moved the time since boot");
    assert!(subject.ask(&format!("lost {LOCK} 10000")).await.starts_with("copied"));
    let error = subject.ask(&format!("release {LOCK}")).await;
    assert!(error.starts_with("Lost: ") && error.contains("copy"), "{error}");
    assert!(harness.is_held(LOCK).await, "only the original can release it");
}

/// Holder and rival disagree about the wall-clock time, and about nothing else.
async fn a_wall_clock_off_by(offset: i64) {
    const TTL: u64 = 2_000;
    let (harness, shim) = (MachineHarness::new().await, Clocks::new());
    let mut subject = ScriptedProcess::with_clocks(&harness.url(), &shim);
    let mut before = clocks(&mut subject).await;
    let mut newest = 0;
    // Moved before the first lock and back after it, so that both kinds of step happen under a holder.
    for wall in [offset, 0] {
        shim.move_wall(wall);
        let now = moved(&mut subject, before).await;
        assert_eq!(now, [0, 0, (if wall == 0 { -offset } else { offset }) / MINUTE]);
        before = clocks(&mut subject).await;

        let answer = subject.ask(&format!("hold {LOCK} {TTL}")).await;
        assert!(token(&answer) > newest, "tokens rise");
        newest = token(&answer);
        shim.move_wall(offset - wall);
        pause(TTL * 3 / 2).await;
        shim.move_wall(wall);
        assert_eq!(subject.ask(&format!("certain {LOCK}")).await, "true", "it is still renewed");
        assert!(harness.is_held(LOCK).await);
        assert_eq!(subject.ask(&format!("release {LOCK}")).await, "ok");

        let mine = harness.take_at_once(LOCK).await;
        assert!(mine.token().expect("sqlite has tokens").get() > newest, "tokens rise");
        newest = mine.token().expect("sqlite has tokens").get();
        assert_eq!(subject.ask(&format!("hold {LOCK} {TTL}")).await, "busy");
        assert_eq!(subject.ask("inspect").await, "1");
        mine.release().await.expect("held");
    }
}

#[tokio::test]
async fn a_process_an_hour_ahead_agrees_with_others_on_the_holder() {
    a_wall_clock_off_by(HOUR).await;
}

#[tokio::test]
async fn a_process_an_hour_behind_agrees_with_others_on_the_holder() {
    a_wall_clock_off_by(-HOUR).await;
}
