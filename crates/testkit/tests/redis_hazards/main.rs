//! The hazards of locks on Redis: each as a naive client that comes to harm, and as our engine, which does
//! not.

mod beside_redis_py;
mod claims;
mod crashes;
mod failover;
mod fence_values;
mod foreign;
mod gap;
mod getset_recipe;
mod getset_scheme;
mod harness;
mod late_release;
mod naive;
mod recipe;
mod redis_py;
mod redisson;
mod repeated;
mod sharing;
mod turns_with_redis_py;
mod waiting;
mod wake_ups;
