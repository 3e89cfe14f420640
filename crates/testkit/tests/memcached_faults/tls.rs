//! TLS: certificates are checked both ways, and nothing is sent in the clear.

use latchwork::ErrorKind;
use testkit::servers::{Certificates, Identity, MemcachedOptions, MemcachedServer, MemcachedTls};

fn server(certificates: &Certificates, identity: Identity) -> MemcachedServer {
    let tls = Some(MemcachedTls { ca: certificates.ca(), identity });
    MemcachedServer::start(MemcachedOptions { tls, ..MemcachedOptions::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_server_is_used_and_only_a_trusted_client_is_answered() {
    let certificates = Certificates::make();
    let client = certificates.client();
    let [cert, key] = [&client.certificate, &client.key].map(|path| path.display());
    let (ca, other_ca) = (certificates.ca(), certificates.other_ca());
    let (ca, other_ca) = (ca.display(), other_ca.display());
    let right = server(&certificates, certificates.server());
    let place = right.address();
    let trusted = latchwork::connect(&format!("memcached+tls://{place}?ca={ca}&cert={cert}&key={key}")).await;
    trusted.expect("trusted").lock("a").acquire().await.expect("free").release().await.expect("held");
    for (url, says) in [
        (format!("memcached+tls://{place}?ca={other_ca}&cert={cert}&key={key}"), "ca="),
        (format!("memcached+tls://{place}?ca={ca}"), "memcached at"),
        (format!("memcached://{place}"), "plain text"),
    ] {
        let error = latchwork::connect(&url).await.expect_err("not with these");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains(says), "{says} in {error}");
    }
    for wrong in [certificates.other_host(), certificates.expired()] {
        let wrong = server(&certificates, wrong);
        let url = format!("memcached+tls://{}?ca={ca}&cert={cert}&key={key}", wrong.address());
        let error = latchwork::connect(&url).await.expect_err("another's certificate, or an old one");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    }
}
