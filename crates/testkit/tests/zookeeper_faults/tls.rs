//! TLS, and the contents of errors.

use latchwork::ErrorKind;
use testkit::servers::ZooKeeperOptions;

use super::harness::ZookeeperHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_never_falls_back_and_no_error_shows_a_password() {
    let harness = ZookeeperHarness::new(ZooKeeperOptions::tls());
    let certificates = harness.server.certificates().expect("the server has TLS");
    let (ca, other, client) = (certificates.ca(), certificates.other_ca(), certificates.client());
    let member = harness.member();
    let identity = format!("cert={}&key={}", client.certificate.display(), client.key.display());
    let (secure, plain) = (member.address(), member.plain_address());
    let url = |place: &str, ca: &std::path::Path, rest: &str| {
        format!("zookeeper+tls://app:canary@{place}/app?ca={}{rest}", ca.display())
    };
    let good = url(&secure.to_string(), &ca, &format!("&{identity}"));
    drop(latchwork::connect(&good).await.expect("good certificates"));
    for (bad, says) in [
        (url(&plain.to_string(), &ca, &format!("&{identity}")), ""),
        (url(&secure.to_string(), &other, &format!("&{identity}")), "ca= in the URL"),
        (format!("zookeeper://app:canary@{secure}/app?session-ttl=1s"), ""),
        ("zookeeper://app:canary@127.0.0.1:1/app".to_owned(), "refused"),
    ] {
        let error = latchwork::connect(&bad).await.err().unwrap_or_else(|| panic!("{bad} works"));
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}
