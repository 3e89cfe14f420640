//! Unused names are forgotten.

use testkit::scenarios::sql::forgotten;
use testkit::scenarios::sql::forgotten_tokens::{self, OF_INSERT, OF_SESSION, Tokens};
use testkit::servers::PostgresOptions;
use testkit::shim::Clocks;

use super::harness::PostgresHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_not_used_for_a_day_is_forgotten_and_its_tokens_rise() {
    let moved = Clocks::new();
    let harness = PostgresHarness::with(PostgresOptions { clocks: Some(&moved), ..Default::default() });
    forgotten::a_name_that_was_not_used_for_a_day_is_forgotten_and_its_tokens_rise(&harness, &moved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_claimed_while_it_is_forgotten_is_held() {
    forgotten::a_name_that_is_claimed_while_it_is_forgotten_is_held(&PostgresHarness::new()).await;
}

fn url(harness: &PostgresHarness, tokens: Tokens) -> String {
    harness.server.url(harness.server.address(), tokens.options)
}

async fn a_name_whose_token_is_a_day_old_is_forgotten(tokens: Tokens) {
    let moved = Clocks::new();
    let harness = PostgresHarness::with(PostgresOptions { clocks: Some(&moved), ..Default::default() });
    let url = url(&harness, tokens);
    forgotten_tokens::a_name_whose_token_is_a_day_old_is_forgotten_and_its_tokens_rise(
        &harness, tokens, &url, &moved,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_an_inserted_row_whose_token_is_a_day_old_is_forgotten_and_its_tokens_rise() {
    a_name_whose_token_is_a_day_old_is_forgotten(OF_INSERT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_a_session_lock_whose_token_is_a_day_old_is_forgotten_and_its_tokens_rise() {
    a_name_whose_token_is_a_day_old_is_forgotten(OF_SESSION).await;
}

async fn a_name_that_is_claimed_while_its_token_is_forgotten_is_held(tokens: Tokens) {
    let harness = PostgresHarness::new();
    let url = url(&harness, tokens);
    forgotten_tokens::a_name_that_is_claimed_while_its_token_is_forgotten_is_held(&harness, tokens, &url)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inserted_row_that_is_claimed_while_its_token_is_forgotten_is_held() {
    a_name_that_is_claimed_while_its_token_is_forgotten_is_held(OF_INSERT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_lock_that_is_claimed_while_its_token_is_forgotten_is_held() {
    a_name_that_is_claimed_while_its_token_is_forgotten_is_held(OF_SESSION).await;
}
