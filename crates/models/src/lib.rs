//! Models of Latchwork's own algorithms. Every order of events in a small world is checked, because tests on
//! real servers do not reach every order.

pub mod redlock;
