use super::super::super::keys::OF;
use super::super::super::uris::{Changed, Op};
use super::super::uris::numbers;
use super::*;

impl Packed {
    /// Checks that all parts are consistent.
    pub(in crate::chg) fn verify(&self) {
        self.verify_known();
        let mut listed = 0;
        let mut len = 0;
        let mut crowds = 0;
        let mut scored = [0; SETS];
        let mut users = vec![0; self.executions.users().len()];
        for slot in 0..self.groups.end() {
            if self.groups.id(slot).is_empty() {
                continue;
            }
            len += 1;
            self.groups.look(slot, |open| {
                let record = &open.record;
                assert!(!record.is_empty() || self.groups.look_at_stock(slot, |_| ()).is_some());
                listed += record.listed;
                for (number, _) in &record.counts {
                    users[*number as usize] += 1;
                }
                for (count, score) in scored.iter_mut().zip(record.scores) {
                    *count += u64::from(score.is_some());
                }
            });
            let held = self.groups.look_at_stock(slot, |stock| {
                assert_eq!(stock.is_crowd, stock.uris.is_crowd());
                crowds += u32::from(stock.is_crowd);
                numbers(stock)
            });
            for number in held.into_iter().flatten() {
                users[number as usize] += 1;
            }
        }
        assert_eq!(users, self.executions.users());
        assert_eq!(crowds, self.crowds);
        assert_eq!(len, self.groups.len());
        assert_eq!(listed, self.ready.len());
        for (count, set) in scored.into_iter().zip(&self.sets) {
            assert_eq!(count, set.len());
        }
        for (set, order) in self.sets.iter().enumerate() {
            order.range(0, usize::MAX, &mut |score, slot| {
                let stored = self.groups.look(slot, |open| open.record.scores[set]);
                assert_eq!(stored, Some(score));
            });
        }
    }
}

fn add(packed: &mut Packed, id: &[u8], uri: &[u8]) {
    let add = Op::Add {
        execution: b"crawl-1",
        weight: None,
        due: 1000,
        depth: 0,
        attempts: 0,
        uri,
    };
    let (changed, _) = packed.apply_to_uris(id, &add, |_| ());
    assert_eq!(changed, Changed::Added);
}

#[test]
fn groups_of_an_unknown_execution_are_found_without_a_scan() {
    let mut packed = Packed::default();
    for n in 0..2 * STEP {
        add(&mut packed, format!("h{n}").as_bytes(), b"http://h/");
    }
    let scan = |packed: &mut Packed, execution: &[u8]| {
        let key = Name::new(&[b"f:", OF.before, execution]);
        let mut out = Batch::default();
        let more = packed.hash_scan(&key, &mut 0, &mut out);
        (more, out.iter().count())
    };
    assert_eq!(scan(&mut packed, b"crawl-1"), (true, STEP as usize));
    assert_eq!(scan(&mut packed, b"crawl-2"), (false, 0));
}

#[test]
fn long_queue_and_many_executions_are_freed_in_the_background() {
    let mut long = Packed::default();
    for n in 0..5_000 {
        add(&mut long, b"h", format!("http://h/{n}/{n}/{n}").as_bytes());
    }
    assert!(long.free_effort() > 64, "{}", long.free_effort());
    let mut many = Packed::default();
    for n in 0..100 {
        many.set_queued(format!("crawl-{n}").as_bytes(), 1);
    }
    assert!(many.free_effort() > 64, "{}", many.free_effort());
}

#[test]
fn frontier_that_all_groups_have_left_is_freed_in_the_background() {
    let mut packed = Packed::default();
    let ids: Vec<String> = (0..1000).map(|n| format!("h{n}")).collect();
    for id in &ids {
        add(&mut packed, id.as_bytes(), b"http://h/");
    }
    for id in &ids {
        packed.forget(id.as_bytes());
    }
    packed.groups.end_entry();
    assert_eq!(packed.places(), 0);
    assert!(packed.free_effort() > 64, "{}", packed.free_effort());
}

#[test]
fn growing_group_gets_the_newest_symbol_table() {
    let uri = |group: u32, n: u32| {
        let word = ["museum", "gazette", "parish", "folio"][n as usize % 4];
        format!("https://h{group}.example/{word}/annals-of-the-harvest/{n:06}.html").into_bytes()
    };
    let mut packed = Packed::default();
    for n in 0..127 {
        add(&mut packed, b"h0.example", &uri(0, n));
    }
    let take = Op::Take {
        token: 7,
        execution: b"crawl-1",
        now: 2000,
    };
    assert_eq!(
        packed.apply_to_uris(b"h0.example", &take, |_| ()).0,
        Changed::Taken
    );
    let slot = packed.groups.find(b"h0.example").unwrap();
    let table = |packed: &mut Packed| packed.groups.stock(slot).unwrap().spelling.table();
    let first = table(&mut packed);
    let mut n = 0;
    while packed.texts.get_mut().assign() == first {
        packed.texts.get_mut().retire(first);
        add(&mut packed, b"h1.example", &uri(1, n));
        n += 1;
    }
    add(&mut packed, b"h0.example", &uri(0, 127));
    assert_ne!(table(&mut packed), first);
    let (leased, queued) = packed
        .look_at_kept(slot, |kept| {
            let leased = kept.leased(7).map(|leased| kept.uri_of(&leased));
            (leased, kept.batch(1000))
        })
        .unwrap();
    assert_eq!(leased, Some(uri(0, 0)));
    let expected: Vec<_> = (1..128).map(|n| uri(0, n)).collect();
    assert_eq!(
        queued
            .into_iter()
            .map(|queued| queued.uri)
            .collect::<Vec<_>>(),
        expected
    );
}
