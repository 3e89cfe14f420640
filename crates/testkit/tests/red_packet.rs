//! An optimistic lock in the user's own table, in real databases: two hundred buyers, fifty red packets, none
//! sold twice.
//!
//! The example `red_packet` shows it on SQLite.

use std::cell::{Cell, RefCell};
use std::sync::Barrier;
use std::time::Duration;

use testkit::servers::{MariadbOptions, MariadbServer, PostgresOptions, PostgresServer, SqlSession};

const PACKETS: i64 = 50;
const BUYERS: usize = 200;
/// Sessions, each of which serves one buyer after the other.
const TILLS: usize = 20;
const LOOK: &str = "SELECT CONCAT(left_count, ' ', version) FROM packet WHERE id = 1";

/// A database with a table of its user's.
struct Shop<'a> {
    open: &'a (dyn Fn() -> SqlSession + Sync),
    /// How this database reports the number of rows that an update changed.
    changed: fn(&str) -> String,
}

fn in_mariadb(update: &str) -> String {
    format!("{update}; SELECT ROW_COUNT()")
}

fn in_postgres(update: &str) -> String {
    format!("WITH done AS ({update} RETURNING 1) SELECT count(*) FROM done")
}

impl Shop<'_> {
    /// Value and version, read together.
    fn look(&self, till: &mut SqlSession) -> (i64, i64) {
        let row = till.ask(LOOK);
        let (left, version) = row.split_once(' ').expect("two numbers");
        let (left, version) = (left.parse().expect("a number"), version.parse().expect("a number"));
        assert!(left >= 0, "{left} left");
        (left, version)
    }

    fn run(&self, till: &mut SqlSession, update: &str) -> bool {
        till.ask(&(self.changed)(update)) == "1"
    }

    /// Whether the buyer got a packet. All buyers whose turn it is have read before the first of them buys.
    fn buy(&self, till: &RefCell<SqlSession>, together: &Barrier) -> bool {
        let is_first = Cell::new(true);
        let attempt = async || -> latchwork::Result<Option<bool>> {
            let (left, version) = self.look(&mut till.borrow_mut());
            if is_first.replace(false) {
                together.wait();
            }
            if left == 0 {
                return Ok(Some(false));
            }
            let update = format!(
                "UPDATE packet SET left_count = {}, version = version + 1 WHERE id = 1 AND version = {version}",
                left - 1
            );
            Ok(self.run(&mut till.borrow_mut(), &update).then_some(true))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(latchwork::optimistic(Duration::from_secs(60), attempt)).expect("its turn comes")
    }

    /// Buys without the version. Whether a row was changed means nothing: two updates to an equal number
    /// change it once.
    fn buy_carelessly(&self, till: &RefCell<SqlSession>, together: &Barrier) -> bool {
        let mut till = till.borrow_mut();
        let (left, _) = self.look(&mut till);
        together.wait();
        if left > 0 {
            self.run(&mut till, &format!("UPDATE packet SET left_count = {} WHERE id = 1", left - 1));
        }
        left > 0
    }

    /// The number of buyers that got a packet, and the packets that are left.
    fn sell(&self, buy: impl Fn(&Self, &RefCell<SqlSession>, &Barrier) -> bool + Sync) -> (usize, i64) {
        let stock = format!("UPDATE packet SET left_count = {PACKETS}, version = version + 1 WHERE id = 1");
        assert!(self.run(&mut (self.open)(), &stock));
        let together = Barrier::new(TILLS);
        let sold = std::thread::scope(|scope| {
            let serve = || {
                let till = RefCell::new((self.open)());
                (0..BUYERS / TILLS).filter(|_| buy(self, &till, &together)).count()
            };
            let tills: Vec<_> = (0..TILLS).map(|_| scope.spawn(serve)).collect();
            tills.into_iter().map(|till| till.join().expect("no panic")).sum()
        });
        (sold, self.look(&mut (self.open)()).0)
    }

    fn each_packet_is_sold_once_with_a_version_and_repeatedly_without(&self) {
        assert_eq!(self.sell(Self::buy), (PACKETS as usize, 0));
        // All buyers that read together sell the same packet.
        let rounds = BUYERS / TILLS;
        assert_eq!(self.sell(Self::buy_carelessly), (BUYERS, PACKETS - rounds as i64));
    }
}

const TABLE: &str = "CREATE TABLE packet (id int PRIMARY KEY, left_count int NOT NULL, version bigint NOT NULL); \
    INSERT INTO packet VALUES (1, 0, 0)";

#[test]
fn two_hundred_buyers_in_mariadb_share_the_packets_and_oversell_without_a_version() {
    let server = MariadbServer::start(MariadbOptions::default());
    server.sql(TABLE);
    let open = || server.session();
    Shop { open: &open, changed: in_mariadb }
        .each_packet_is_sold_once_with_a_version_and_repeatedly_without();
}

#[test]
fn two_hundred_buyers_in_postgres_share_the_packets_and_oversell_without_a_version() {
    let server = PostgresServer::start(PostgresOptions::default());
    server.psql(TABLE);
    let open = || server.session();
    Shop { open: &open, changed: in_postgres }
        .each_packet_is_sold_once_with_a_version_and_repeatedly_without();
}

/// A transaction of MariaDB and MySQL sees the state at its first read: an attempt that is repeated inside it
/// never succeeds.
#[test]
fn an_attempt_needs_a_transaction_of_its_own_in_mariadb() {
    let server = MariadbServer::start(MariadbOptions::default());
    server.sql(TABLE);
    let (mut one, mut other) = (server.session(), server.session());
    let update = |version: u32| {
        in_mariadb(&format!("UPDATE packet SET version = version + 1 WHERE id = 1 AND version = {version}"))
    };
    assert_eq!(one.ask(&format!("START TRANSACTION; {LOOK}")), "0 0");
    assert_eq!(other.ask(&update(0)), "1");
    assert_eq!(one.ask(&update(0)), "0", "another buyer was faster");
    assert_eq!(one.ask(LOOK), "0 0", "and the buyer does not see by whom");
    assert_eq!(one.ask(&format!("COMMIT; {LOOK}")), "0 1");
    assert_eq!(one.ask(&update(1)), "1");
}
