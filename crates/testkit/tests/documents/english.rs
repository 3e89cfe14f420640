//! Plain English, as far as a search can tell.

use std::fs;

use crate::{all, root};

/// Not at the beginning of a sentence of a doc comment: its subject is a noun.
const NO_SUBJECTS: [&str; 3] = ["Who ", "Whoever ", "What "];
/// Nowhere in comments and documents.
const NOWHERE: [&str; 2] = ["whoever", "such a thing"];
/// A doc comment says what its item is, and not what another one is.
const NO_BEGINNING: &str = "The same";

#[test]
fn comments_and_documents_are_plain_english() {
    let mut found = Vec::new();
    for path in all(&[".rs", ".md", ".lua", ".sql"]) {
        let text = fs::read_to_string(&path).expect("readable");
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        // It names what it looks for.
        if name.ends_with("documents/english.rs") {
            continue;
        }
        let is_rust = name.ends_with(".rs");
        let (mut is_first_line, mut begins_sentence) = (true, true);
        for (number, line) in text.lines().enumerate() {
            let doc = doc_of(line);
            let wrong = (is_rust && doc.is_some_and(|doc| is_wrong_doc(doc, is_first_line, begins_sentence)))
                || (!is_rust || comment_of(line).is_some()) && has_wrong_words(line);
            if wrong {
                found.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
            is_first_line = doc.is_none();
            begins_sentence = doc.is_none_or(|doc| doc.is_empty() || doc.ends_with(['.', ':']));
        }
    }
    assert!(found.is_empty(), "hard to read:\n{}", found.join("\n"));
}

fn is_wrong_doc(doc: &str, is_first_line: bool, begins_sentence: bool) -> bool {
    let begins = |text: &str| NO_SUBJECTS.iter().any(|subject| text.starts_with(subject));
    let sentences = doc.split(". ").skip(1);
    begins_sentence && begins(doc)
        || is_first_line && doc.starts_with(NO_BEGINNING)
        || sentences.into_iter().any(begins)
}

fn has_wrong_words(line: &str) -> bool {
    let line = line.to_lowercase();
    NOWHERE.iter().any(|words| line.contains(words))
}

/// The text of a doc comment's line.
fn doc_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(doc.trim_start())
}

fn comment_of(line: &str) -> Option<&str> {
    line.split_once("//").map(|(_, comment)| comment)
}

#[test]
fn hard_sentences_are_found() {
    assert!(is_wrong_doc("Who waits is told.", true, true));
    assert!(is_wrong_doc("Who waits is told.", false, true));
    assert!(!is_wrong_doc("What it sends is read.", false, false));
    assert!(is_wrong_doc("Sends it. What comes back is read.", false, false));
    assert!(is_wrong_doc("The same for readers.", true, true));
    assert!(!is_wrong_doc("The same for readers.", false, true));
    assert!(!is_wrong_doc("The waiter is told who holds the lock.", true, true));
    assert!(has_wrong_words("// whoever asks") && !has_wrong_words("// a caller that asks"));
}
