//! `scheme=insert`: beside services that use the same table by plain SQL.

use latchwork::{ErrorKind, connect};
use testkit::rows::shared::{self, TABLE};
use testkit::stage::LOCK;

use super::scene::Scene;

fn url(scene: &Scene) -> String {
    scene.server.url(scene.server.address(), &shared::options())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_kept_out_by_us_for_as_long_as_we_hold() {
    let scene = Scene::new();
    shared::a_service_is_kept_out_by_us_for_as_long_as_we_hold(&scene, &scene.server, &url(&scene)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_are_kept_out_by_a_service_until_it_lets_go_or_its_row_is_too_old() {
    let scene = Scene::new();
    let url = url(&scene);
    shared::we_are_kept_out_by_a_service_until_it_lets_go_or_its_row_is_too_old(&scene, &scene.server, &url)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn services_and_clients_take_turns_one_at_a_time() {
    let scene = Scene::new();
    shared::services_and_clients_take_turns_one_at_a_time(&scene.server, &url(&scene)).await;
}

/// As somebody made it long ago, with what it needs and more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_others_made_is_used_as_it_is() {
    let scene = Scene::new();
    scene.server.sql(&format!(
        "CREATE TABLE {TABLE} (id BIGINT PRIMARY KEY AUTO_INCREMENT, unique_mutex VARCHAR(64) NOT NULL UNIQUE, \
         holder_id VARCHAR(64), create_time DATETIME DEFAULT CURRENT_TIMESTAMP)"
    ));
    let client = connect(&url(&scene)).await.expect("it runs");
    let guard = client.lock(LOCK).acquire().await.expect("free");
    let before = guard.token().expect("tokens");
    assert!(!shared::service(&scene.server, "host-7").take());
    guard.release().await.expect("held");
    let again = client.lock(LOCK).acquire().await.expect("free");
    assert!(again.token().expect("tokens") > before);
    again.release().await.expect("held");
    let error = client.lock("x".repeat(65)).try_acquire().await.expect_err("too long for the column");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// Nothing would keep two from inserting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_on_which_two_could_hold_is_refused() {
    let scene = Scene::new();
    let columns = "unique_mutex VARCHAR(64) NOT NULL, holder_id VARCHAR(64), create_time DATETIME";
    for rest in [
        ") ENGINE=InnoDB",
        ", KEY (unique_mutex)) ENGINE=InnoDB",
        ", UNIQUE KEY (unique_mutex, holder_id)) ENGINE=InnoDB",
        ", UNIQUE KEY (unique_mutex(8))) ENGINE=InnoDB",
        ", UNIQUE KEY (unique_mutex)) ENGINE=MyISAM",
    ] {
        scene.server.sql(&format!("CREATE OR REPLACE TABLE {TABLE} ({columns}{rest}"));
        let error = connect(&url(&scene)).await.expect_err(rest);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{rest}: {error}");
        assert!(error.to_string().contains("unique key"), "{rest}: {error}");
    }
}
