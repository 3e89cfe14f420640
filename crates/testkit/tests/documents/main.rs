//! Documents that stay correct: every path they name exists, and generated parts are up to date.

mod english;
mod type_names;

use std::fs;
use std::path::{Path, PathBuf};

use latchwork::engine::Registry;
use testkit::fixtures::{MariadbFixture, PostgresFixture, PostgresInsertFixture, RedisFixture};

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace is there")
}

/// Every file of the project below `folder`, with one of these endings.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path()) {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            files(&entry, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(entry);
        }
    }
}

fn all(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&root(), endings, &mut found);
    assert!(!found.is_empty());
    found
}

/// The headings of a page, in the form of link anchors.
fn headings(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("readable");
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let known = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    lines
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|line| line.chars().filter(known).map(|c| if c == ' ' { '-' } else { c }).collect())
        .collect()
}

#[test]
fn every_path_that_a_document_names_exists() {
    for document in all(&[".md"]) {
        let text = fs::read_to_string(&document).expect("readable");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let quoted = text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.starts_with("crates/") || word.starts_with("docs/"));
        let here = document.parent().expect("a file has a folder");
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let (path, heading) =
                link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
            assert!(here.join(path).exists(), "{document:?} links to {link}");
            let has = |heading| headings(&here.join(path)).iter().any(|known| known == heading);
            assert!(heading.is_none_or(has), "{document:?} links to {link}");
        }
        for path in quoted.filter(|path| !path.contains(['*', ' ', '<'])) {
            assert!(root().join(path).exists(), "{document:?} names {path}");
        }
    }
}

#[test]
fn every_test_that_shows_how_locks_are_shared_exists() {
    let text = fs::read_to_string(root().join("docs/interop.md")).expect("readable");
    let tests: Vec<_> = text.split('`').filter(|word| word.ends_with(".rs")).collect();
    assert!(tests.len() > 10, "{tests:?}");
    for test in tests.iter().filter(|test| !test.starts_with("crates/")) {
        assert!(root().join("crates/testkit/tests").join(test).exists(), "docs/interop.md names {test}");
    }
}

#[test]
fn every_engine_has_its_page_and_every_scheme_is_on_one() {
    let mut pages = String::new();
    for promised in Registry::builtin().guarantees() {
        // The part after a dash names another way to lock on the same server.
        let engine = promised.engine.split('-').next().unwrap_or_default();
        let engine = if engine == "mariadb" { "mysql" } else { engine };
        let page = fs::read_to_string(root().join(format!("docs/engines/{engine}.md")));
        pages += &page.unwrap_or_else(|_| panic!("no page for {engine}"));
    }
    for scheme in Registry::builtin().schemes() {
        assert!(pages.contains(&format!("`{scheme}:")), "no page says what `{scheme}:` is");
    }
}

#[test]
fn the_table_of_guarantees_is_the_one_in_the_code() {
    const BEGIN: &str = "<!-- generated: LATCH_BLESS=1 cargo test -p testkit --test documents -->\n";
    let path = root().join("GUARANTEES.md");
    let text = fs::read_to_string(&path).expect("readable");
    let (head, old) = text.split_once(BEGIN).expect("the marker is there");
    let new = testkit::guarantees_page::text(&Registry::builtin().guarantees());
    if std::env::var_os("LATCH_BLESS").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{new}")).expect("writable");
    } else {
        assert_eq!(
            old, new,
            "GUARANTEES.md is behind the code; run LATCH_BLESS=1 cargo test -p testkit --test documents"
        );
    }
}

#[test]
fn the_program_in_the_readme_is_the_one_that_is_compiled() {
    let readme = fs::read_to_string(root().join("README.md")).expect("readable");
    let program =
        readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is one");
    let example = fs::read_to_string(root().join("crates/latchwork/examples/readme.rs")).expect("readable");
    let example = example.split_once("\n\n").expect("a comment comes first").1;
    assert_eq!(program.trim(), example.trim());
}

#[test]
fn no_source_file_is_longer_than_six_hundred_lines_and_the_median_is_short() {
    let mut lengths: Vec<_> = all(&[".rs"])
        .into_iter()
        .map(|path| (fs::read_to_string(&path).expect("readable").lines().count(), path))
        .collect();
    lengths.sort();
    let (longest, path) = lengths.last().expect("there are files");
    assert!(*longest <= 600, "{path:?} has {longest} lines");
    let median = lengths[lengths.len() / 2].0;
    assert!(median < 150, "the median file has {median} lines");
}

#[test]
fn the_pages_grant_what_the_tests_grant() {
    let words = |text: &str| {
        text.split([' ', '\n', '\\']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let grants = [
        ("redis", RedisFixture::GRANT),
        ("postgres", PostgresFixture::GRANT),
        ("postgres", PostgresFixture::GRANT_OF_CELLS),
        ("postgres", PostgresInsertFixture::GRANT),
        ("mysql", MariadbFixture::GRANTS[0]),
        ("mysql", MariadbFixture::GRANTS[1]),
    ];
    for (engine, grant) in grants {
        let page = root().join(format!("docs/engines/{engine}.md"));
        let page = words(&fs::read_to_string(page).expect("readable"));
        let grant = words(grant);
        assert!(page.contains(&grant), "docs/engines/{engine}.md lacks: {grant}");
    }
}
