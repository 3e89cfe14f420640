//! Locks that another program holds.

use std::sync::Arc;

use latchwork::engine::{Filter, Revoke, Revoked};
use latchwork::{Effect, ErrorKind};

use super::support::{LONG, hold, name, nothing_left};
use crate::Fixture;

pub(super) async fn a_foreign_holder_is_not_revoked_by_default<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    // The first use creates everything that the other program relies on.
    hold(&client, "foreign").await.release().await.expect("held");
    nothing_left(&client, "foreign").await;
    let planted = fixture.plant("foreign").await;
    let before = fixture.planted("foreign").await;
    assert!(!before.is_empty());
    assert!(
        client.lock("foreign").try_acquire().await.expect("answers").is_none(),
        "the lock is another program's"
    );
    let state = client.inspect(&Filter::Name(name("foreign"))).await.expect("answers").remove(0);
    assert!(state.holders.iter().all(|holder| holder.foreign.is_some()), "{state:?}");
    for how in [Revoke::AtLeaseEnd, Revoke::Now] {
        let refused = client.revoke(&state, how).await.expect_err("no client asked for it");
        assert_eq!((refused.kind(), refused.effect()), (ErrorKind::Foreign, Effect::None), "{refused}");
        let found = state.holders[0].foreign.as_ref().expect("seen").to_string();
        assert!(refused.to_string().contains(&found), "{refused}: {found}");
        assert_eq!(fixture.planted("foreign").await, before, "{how:?}");
    }
    assert_eq!(client.revoke(&state, Revoke::NowAlsoForeign).await.expect("answers"), Revoked::Done);
    assert_ne!(fixture.planted("foreign").await, before);
    let ours = client.lock("foreign").ttl(LONG).wait(LONG).acquire().await.expect("it is free");
    assert_eq!(
        client.revoke(&state, Revoke::NowAlsoForeign).await.expect("answers"),
        Revoked::NotHeld,
        "only what was seen"
    );
    assert!(ours.is_certain());
    ours.release().await.expect("held");
    drop(planted);
}
