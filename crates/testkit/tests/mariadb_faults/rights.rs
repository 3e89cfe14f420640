//! What a user may not do.

use latchwork::{Effect, ErrorKind, Version, connect};
use testkit::rows::forgotten_tokens::{self, OF_INSERT, OF_SESSION};
use testkit::rows::{Scene as _, forgotten};
use testkit::stage::{LOCK, LONG, SOON, take};

use super::scene::Scene;

fn url_of(scene: &Scene, user: &str, options: &str) -> String {
    format!("mariadb://{user}@{}/locks?{options}", scene.server.address())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_make_the_tables_is_told_what_would_and_needs_no_more_than_the_grant() {
    let (scene, app) = (Scene::new(), "app:s3cr%40t");
    let error = connect(&url_of(&scene, app, "")).await.expect_err("there are no tables");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let tables = error.to_string().split_once("run:\n").expect("what to run").1.to_owned();
    scene.sql(&tables);
    let error = connect(&url_of(&scene, app, "")).await.expect_err("not granted");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("docs/engines/mysql.md"), "{error}");
    for table in ["latchwork_lock", "latchwork_claim"] {
        scene.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO app@'127.0.0.1'"));
    }
    let client = scene.connect(&url_of(&scene, app, "")).await;
    take(&client.lock("x")).await.release().await.expect("held");
    let cell = client.client().cell("x");
    let error = cell.get().await.expect_err("there is no table of cells");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
    scene.sql(error.to_string().split_once("run:\n").expect("what to run").1);
    let error = cell.set_if(Version::ABSENT, "x").await.expect_err("not granted");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
    scene.sql("GRANT SELECT, INSERT, UPDATE ON latchwork_cell TO app@'127.0.0.1'");
    let set = cell.update(|_| b"x".to_vec()).await.expect("granted");
    cell.delete_if(set.version).await.expect("granted");
    let error = connect(&url_of(&scene, "app:wrong", "")).await.expect_err("not its password");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("password in the URL"), "{error}");
    scene.judge(&[client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_delete_locks_all_the_same() {
    let scene = Scene::new();
    drop(scene.observer().await);
    scene.sql("GRANT SELECT, INSERT, UPDATE ON latchwork_lock TO app@'127.0.0.1'");
    scene.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_claim TO app@'127.0.0.1'");
    forgotten::who_may_not_delete_locks_all_the_same(&scene, &url_of(&scene, "app:s3cr%40t", "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_delete_tokens_locks_all_the_same() {
    let (scene, app) = (Scene::new(), "app:s3cr%40t");
    for tokens in [OF_INSERT, OF_SESSION] {
        let owner = connect(&url_of(&scene, "owner", tokens.options)).await.expect("it makes the tables");
        owner.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    }
    for table in ["latchwork_mutex_token", "latchwork_fence"] {
        scene.sql(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO app@'127.0.0.1'"));
    }
    scene.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_mutex TO app@'127.0.0.1'");
    for tokens in [OF_INSERT, OF_SESSION] {
        let url = url_of(&scene, app, tokens.options);
        forgotten_tokens::who_may_not_delete_tokens_locks_all_the_same(&scene, tokens, &url).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_only_reads_says_so_and_is_used_again_when_it_writes() {
    let scene = Scene::new();
    let client = scene.observer().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    scene.sql("SET GLOBAL read_only = 1");
    for lock in [client.lock(LOCK), client.lock("never used")] {
        let error = lock.wait(SOON / 5).acquire().await.expect_err("it writes nothing");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("read-only") && error.to_string().contains("primary"), "{error}");
    }
    scene.sql("SET GLOBAL read_only = 0");
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_by_its_name() {
    let scene = Scene::new();
    let nowhere = format!("mysql://owner@{}/nowhere", scene.server.address());
    let none = format!("mysql://owner@{}", scene.server.address());
    let scheme = url_of(&scene, "owner", "scheme=rows");
    let unknown = url_of(&scene, "owner", "tabel=x");
    for (url, kind, word) in [
        (nowhere, ErrorKind::Denied, "nowhere"),
        (none, ErrorKind::Invalid, "database"),
        (scheme, ErrorKind::Invalid, "scheme= takes one of row"),
        (unknown, ErrorKind::Invalid, "table"),
    ] {
        let error = connect(&url).await.expect_err("it cannot work");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    for table in ["x;drop", "x%22y", "x%60y", "Upper", "a.b.c", "", "x%20y"] {
        let error = connect(&url_of(&scene, "owner", &format!("table={table}"))).await.expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{table}: {error}");
        assert!(error.to_string().contains("table="), "{error}");
    }
}
