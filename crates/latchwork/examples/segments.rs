//! A hundred items as two segments of fifty, each with its own lock: two buyers at a time instead of one.
//!
//! `cargo run --example segments -- sqlite:/tmp/locks.db`; without an argument, `memory:`.
#![allow(clippy::disallowed_methods, reason = "the work of the example takes time")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork::{Client, Result};

const SEGMENTS: usize = 2;
const ITEMS: u32 = 50; // in each

/// The rest of each segment, and the number of buyers inside. Only the locks protect the stock: it is read,
/// time passes, and it is written.
#[derive(Default)]
struct Shop {
    left: [Mutex<u32>; SEGMENTS],
    inside: AtomicU32,
    most_inside: AtomicU32,
}

/// Buys one item of a segment without other buyers; `None` if that segment is sold out.
async fn buy(client: &Client, shop: &Shop) -> Result<Option<u32>> {
    let items = client.striped_lock("items", SEGMENTS as u32).any();
    items
        .run(async |segment, _held| {
            let inside = shop.inside.fetch_add(1, Ordering::SeqCst) + 1;
            shop.most_inside.fetch_max(inside, Ordering::SeqCst);
            let left = *shop.left[segment as usize].lock().expect("no panic");
            tokio::time::sleep(Duration::from_millis(1)).await;
            if left > 0 {
                *shop.left[segment as usize].lock().expect("no panic") = left - 1;
            }
            shop.inside.fetch_sub(1, Ordering::SeqCst);
            Ok((left > 0).then(|| segment * ITEMS + left))
        })
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = latchwork::connect(&url).await?;
    let shop = Arc::new(Shop { left: [Mutex::new(ITEMS), Mutex::new(ITEMS)], ..Shop::default() });
    let buyers = (0..10).map(|_| {
        let (client, shop) = (client.clone(), shop.clone());
        tokio::spawn(async move {
            let mut bought = Vec::new();
            while shop.left.iter().any(|left| *left.lock().expect("no panic") > 0) {
                bought.extend(buy(&client, &shop).await?);
            }
            Result::Ok(bought)
        })
    });
    let mut sold = Vec::new();
    for buyer in buyers.collect::<Vec<_>>() {
        sold.extend(buyer.await.expect("no panic")?);
    }
    let count = sold.len();
    sold.sort_unstable();
    sold.dedup();
    let most = shop.most_inside.load(Ordering::SeqCst);
    println!("{count} items sold, {} of them different, {most} buyers at a time", sold.len());
    assert_eq!((count, sold.len(), most), (100, 100, 2));
    client.close().await
}
