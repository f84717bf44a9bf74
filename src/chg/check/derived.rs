//! Checks data that a packed frontier derives from other data: the texts of URLs that are neither queued nor leased,
//! and the agendas of executions.

use crawlspace_host::text::Shown;

use super::super::error::Result;
use super::super::job::Lent;
use super::super::packed::{Packed, WrongText};
use super::super::store::Store;
use super::Check;

/// Returns the wrong texts on a page of a space, and the position of the next page.
type Page = fn(&Packed, &[u8], u64) -> (Vec<WrongText>, Option<u64>);

impl Check {
    /// Compares the stored texts of each space with its records. A repair forgets URLs whose text is lost.
    pub(super) async fn look_at_texts<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let spaces = lent.with(|_, ks| ks.packed(|packed| packed.spaces_with_texts()))?;
        for name in spaces.unwrap_or_default() {
            for page in [Packed::wrong_texts as Page, Packed::lone_texts] {
                let mut from = Some(0);
                while let Some(at) = from {
                    let next = lent.with(|_, ks| {
                        ks.packed(|packed| {
                            let (wrong, next) = page(packed, &name, at);
                            self.note_texts(packed, &name, &wrong);
                            next
                        })
                    })?;
                    from = next.flatten();
                    lent.pause().await;
                }
            }
        }
        Ok(())
    }

    fn note_texts(&mut self, packed: &mut Packed, name: &[u8], wrong: &[WrongText]) {
        for wrong in wrong {
            // The first byte of the name tells whether the space is shared.
            self.problem(|| format!("known URLs of '{}': {}", Shown(&name[1..]), wrong.problem()));
            self.wrong_texts += 1;
            if self.repairs {
                packed.mend_text(name, wrong);
                self.mended += 1;
            }
        }
    }

    /// Compares the agendas of executions with the groups.
    pub(super) async fn look_at_agendas<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        for slot in 0.. {
            let found = lent.with(|_, ks| {
                ks.packed(|packed| {
                    let (wrong, id) = packed.wrong_agendas(slot)?;
                    for execution in &wrong {
                        self.problem(|| {
                            let (execution, id) = (Shown(execution), Shown(&id));
                            format!("the agenda of execution '{execution}' has no time, or a wrong time, for group '{id}'")
                        });
                        self.wrong_agendas += 1;
                        if self.repairs {
                            packed.mend_agenda(execution, slot);
                            self.mended += 1;
                        }
                    }
                    Some(())
                })
            })?;
            if found.flatten().is_none() {
                break;
            }
            lent.pause().await;
        }
        Ok(())
    }
}
