//! TLS, servers that present a false identity, and a password that is sent to the server and nowhere else.

use std::path::Path;

use latchwork::{ErrorKind, connect};
use testkit::scenarios::sql::tls::is_refused;
use testkit::servers::{Certificates, Identity, MariadbOptions, MariadbServer};

const PASSWORD: &str = "canary-password-7f3a";

fn server(certificates: &Certificates, identity: &Identity) -> MariadbServer {
    let server =
        MariadbServer::start(MariadbOptions { tls: Some((certificates, identity)), ..Default::default() });
    server.sql(&format!(
        "ALTER USER app@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON locks.* TO app@'127.0.0.1'"
    ));
    server
}

fn url(server: &MariadbServer, ca: &Path, client: Option<&Identity>) -> String {
    let mut url = format!("mariadb+tls://app:{PASSWORD}@{}/locks?ca={}", server.address(), ca.display());
    if let Some(Identity { certificate, key }) = client {
        url += &format!("&cert={}&key={}", certificate.display(), key.display());
    }
    url
}

async fn refused(url: &str, kind: ErrorKind, reasons: &[&str]) {
    is_refused(url, kind, reasons, PASSWORD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_server_and_a_trusted_client_connect() {
    use ErrorKind::{Denied, Unreachable};
    let certificates = Certificates::make();
    let server = server(&certificates, &certificates.server());
    let (ca, client) = (certificates.ca(), certificates.client());
    let good = connect(&url(&server, &ca, Some(&client))).await.expect("the configuration is valid");
    assert!(!format!("{good:?} {:?}", good.guarantees()).contains(PASSWORD));
    let lock = good.lock("x");
    lock.acquire().await.expect("free").release().await.expect("held");
    refused(&url(&server, &certificates.other_ca(), Some(&client)), Unreachable, &["UnknownIssuer", "ca="])
        .await;
    refused(&url(&server, &ca, None), Denied, &["password"]).await;
    refused(&url(&server, &ca, Some(&certificates.stranger())), Unreachable, &["mariadb at"]).await;
    let wrong = url(&server, &ca, Some(&client)).replace(PASSWORD, "wrong");
    refused(&wrong, Denied, &["password"]).await;
    // Without TLS the server does not accept this user, and a client that was not told to use TLS does not
    // use it.
    let plain = format!("mysql://app:{PASSWORD}@{}/locks", server.address());
    refused(&plain, Denied, &["Access denied"]).await;
    server.kill();
    let error = lock.try_acquire().await.expect_err("no server listens");
    assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_name_an_expired_certificate_or_none_is_refused() {
    let certificates = Certificates::make();
    let (ca, client) = (certificates.ca(), certificates.client());
    let elsewhere = server(&certificates, &certificates.other_host());
    let reasons = ["not valid for name", "elsewhere.example"];
    refused(&url(&elsewhere, &ca, Some(&client)), ErrorKind::Unreachable, &reasons).await;
    let expired = server(&certificates, &certificates.expired());
    refused(&url(&expired, &ca, Some(&client)), ErrorKind::Unreachable, &["expired"]).await;
    let plain = MariadbServer::start(MariadbOptions::default());
    refused(&url(&plain, &ca, Some(&client)), ErrorKind::Denied, &["TLS", "mariadb://"]).await;
}
