//! What must be running for the sides of an engine: for redis one server, which all of them use in turns.

use testkit::servers::{RedisOptions, RedisServer};

use crate::metrics::Metric;
use crate::plan::{Engine, Side};

/// Started before the first side, ended after the last. Pinned with this process, whose child the server is.
pub(crate) struct Host {
    redis: Option<RedisServer>,
}

impl Host {
    /// # Panics
    /// If the server does not start.
    pub(crate) fn of(engine: Engine) -> Self {
        Self { redis: (engine == Engine::Redis).then(start_redis) }
    }

    /// The server's address as the library takes it.
    pub(crate) fn url(&self) -> Option<String> {
        self.redis.as_ref().map(|server| format!("redis://{}", server.address()))
    }

    /// Forgets what the side before has left.
    pub(crate) fn clear(&self) {
        self.redis.iter().for_each(|server| drop(server.command(&["FLUSHALL"])));
    }

    /// From now on requests count.
    pub(crate) fn begin(&self) {
        self.redis.iter().for_each(|server| drop(server.command(&["CONFIG", "RESETSTAT"])));
    }

    /// What `turns` turns of a side cost the server since it began.
    pub(crate) fn load(&self, side: Side, turns: usize) -> Vec<Metric> {
        let Some(server) = &self.redis else { return Vec::new() };
        let calls = server.calls(side.requests()) as f64;
        let busy = server.time_in(side.requests()).as_secs_f64() * 1e6;
        vec![
            Metric::median_of("requests/turn", calls / turns as f64),
            Metric::median_of("us/request", busy / calls),
        ]
    }
}

fn start_redis() -> RedisServer {
    // The slow log would be written in the measured time whenever the machine stalls.
    let config = vec![("slowlog-log-slower-than".to_owned(), "-1".to_owned())];
    RedisServer::start(RedisOptions { config, ..RedisOptions::default() })
}
