//! The table of tested versions.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use super::servers::{SERVERS, Server};
use crate::report::PartResult;

const PAGE: &str = "docs/engines/versions.md";
const HEADER: &str = "\
# Versions of servers

`./test` runs on the servers of Debian 12's packages, before every change. `./test versions` runs conformance and the fault
scenarios on the servers below, in the versions that Debian's other releases have on the day. It writes this page.

| server | version | Debian | tested | passed | failed |
|---|---|---|---|---|---|
";

/// Replaces the row of a server. The other rows stay.
pub(super) fn write(server: &Server, version: &str, result: &PartResult) -> io::Result<()> {
    let date = String::from_utf8_lossy(&Command::new("date").arg("+%F").output()?.stdout).trim().to_owned();
    let failed = match &result.failed[..] {
        [] => "none".to_owned(),
        failed => failed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join("<br>"),
    };
    let row = format!(
        "| {} | {version} | {} | {date} | {} | {failed} |",
        server.title, server.release, result.passed
    );
    let before = if Path::new(PAGE).exists() { fs::read_to_string(PAGE)? } else { String::new() };
    fs::write(PAGE, with_row(&before, server.title, &row))
}

fn with_row(page: &str, title: &str, row: &str) -> String {
    let row_of = |title: &str| page.lines().find(|line| line.starts_with(&format!("| {title} |")));
    let rows = SERVERS.iter().filter_map(|server| match server.title == title {
        true => Some(row),
        false => row_of(server.title),
    });
    rows.fold(HEADER.to_owned(), |page, row| page + row + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_replaced_and_the_others_stay() {
        let page = with_row("", "Valkey 9", "| Valkey 9 | old |");
        let page = with_row(&page, "Redis 8", "| Redis 8 | first |");
        let page = with_row(&page, "Valkey 9", "| Valkey 9 | new |");
        assert!(page.ends_with("|---|\n| Redis 8 | first |\n| Valkey 9 | new |\n"), "{page}");
    }
}
