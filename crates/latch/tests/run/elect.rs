//! `latch elect`.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};

use crate::support::{TestDir, end, eventually};

fn leader(dir: &TestDir) -> Option<(u64, String)> {
    dir.with_client(async |client| {
        let leader = client.election("main").leader().await.unwrap()?;
        Some((leader.term, String::from_utf8(leader.value).unwrap()))
    })
}

#[test]
fn the_standby_runs_its_command_when_the_leader_is_killed() {
    let dir = TestDir::new();
    let serve = |value: &str| {
        let script = format!("echo {value} $LATCH_TOKEN >> terms; sleep 60");
        let mut command =
            dir.latch(["elect", "main", "--ttl", "5s", "--value", value, "--", "sh", "-c", &script]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut main = serve("web1");
    eventually("the main leads", || leader(&dir).is_some_and(|(_, value)| value == "web1"));
    let mut standby = serve("web2");
    eventually("the standby waits", || dir.inspect("main").is_some_and(|lock| lock.waiters.len() == 1));
    let (first, _) = leader(&dir).expect("the main leads on");
    kill(nix::unistd::Pid::from_raw(main.id() as i32), Signal::SIGKILL).unwrap();
    main.wait().unwrap();
    eventually("the standby leads", || leader(&dir).is_some_and(|(_, value)| value == "web2"));
    let (second, _) = leader(&dir).expect("the standby leads on");
    assert!(second > first);
    eventually("both have served", || dir.read("terms").lines().count() == 2);
    assert_eq!(dir.read("terms"), format!("web1 {first}\nweb2 {second}\n"));
    standby.kill().unwrap();
    standby.wait().unwrap();
}

#[test]
fn the_exit_code_is_the_commands_own_and_the_leadership_ends_with_it() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch(["elect", "main", "--value", "x", "--", "sh", "-c", "exit 7"]));
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert_eq!(leader(&dir), None);
}
