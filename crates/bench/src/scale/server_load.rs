//! The load of held locks on their server, counted by the server or by a proxy.

use testkit::servers::ZooKeeperMeter;

use super::figures::Figures;
use crate::Result;
use crate::engine_servers::EngineServers;
use crate::plan::Engine;

/// Seconds in which locks are acquired and released, beside those in which they are only held.
const ACQUIRE_RELEASE_SECONDS: f64 = 5.0;

/// A server, and the proxy that counts ZooKeeper's requests.
pub(super) struct ServerLoad {
    servers: EngineServers,
    meter: Option<ZooKeeperMeter>,
}

/// A figure and its greatest allowed value.
pub(super) type Limit = (&'static str, f64);

impl ServerLoad {
    pub(super) fn start(engine: Engine) -> Self {
        let servers = EngineServers::of(engine, false);
        let meter = servers.zookeeper().map(|server| ZooKeeperMeter::to(server.members()[0].address()));
        Self { servers, meter }
    }

    /// Its address for locks with this ttl, in seconds.
    pub(super) fn url(&self, ttl: u64) -> Result<String> {
        match &self.meter {
            Some(meter) => Ok(format!("zookeeper://{}?session-ttl={ttl}s", meter.address())),
            None => Ok(self.servers.url().ok_or("held locks are counted on redis, etcd and zookeeper")?),
        }
    }

    /// Adds the counts to `figures`, and returns their limits.
    pub(super) fn add_to(&self, figures: &mut Figures, (locks, ttl): (u32, u64), seconds: u64) -> Vec<Limit> {
        let (leases, mut limits) = ((seconds as f64 + ACQUIRE_RELEASE_SECONDS) / ttl as f64, Vec::new());
        if let Some(server) = self.servers.redis() {
            // Without the claims and releases of the locks and of the one that warmed the client up.
            let calls = server.calls(&["evalsha"]).saturating_sub(2 * (u64::from(locks) + 1));
            figures.add("renewal requests", calls as f64);
        }
        if let Some(server) = self.servers.etcd() {
            figures.add("keep-alives", server.calls(&["LeaseKeepAlive"]) as f64);
            figures.add("looks at a lease", server.calls(&["LeaseTimeToLive"]) as f64);
            figures.add("leases", server.calls(&["LeaseGrant"]) as f64);
            // For any number of locks, because one keep-alive serves all locks that are due within a twelfth
            // of the ttl. Three in a ttl would suffice. A single lease, because all locks have the same ttl.
            limits.extend([("keep-alives", (leases * 12.0).ceil() + 1.0), ("leases", 1.0)]);
        }
        if let Some(meter) = &self.meter {
            figures.add("signs of life", meter.signs() as f64);
            figures.add("sessions", meter.sessions() as f64);
            figures.add("other requests/lock", meter.others() as f64 / f64::from(locks));
            // One in an eighth of the session's ttl.
            limits.extend([("signs of life", (leases * 8.0).ceil() + 1.0), ("sessions", 1.0)]);
        }
        limits
    }
}
