//! The synthetic archive for all measurements of tags. Equal seeds result in equal data. The
//! archive has collections of organizations, a third of them private, and captures in WARC files
//! with names as in Archive-It.

use redis_tests::Rng;

/// Number of collections.
const COLLECTIONS: usize = 10_000;
/// Number of organizations that own the collections.
const ORGANISATIONS: u64 = 1_000;

/// Number of captures per file of [`Archive::stored`].
pub const IN_A_FILE: u64 = 500;

/// A collection.
pub struct Collection {
    /// The number in the names of the collection's WARC files.
    pub id: u64,
    /// Number of the organization that owns the collection.
    pub organisation: u64,
    /// True if the collection is private.
    pub private: bool,
}

/// All collections in random order.
pub struct Archive {
    /// Seed of all generated data.
    pub seed: u64,
    /// The collections.
    pub collections: Vec<Collection>,
}

/// A capture, field by field.
pub struct Capture {
    urlkey: String,
    timestamp: u64,
    url: String,
    mime: &'static str,
    status: u16,
    digest: String,
    length: u64,
    offset: u64,
    /// Name of the capture's WARC file, sometimes with a path before it.
    pub filename: String,
}

impl Archive {
    /// Generates the archive for this seed.
    pub fn new(seed: u64) -> Archive {
        let mut rng = Rng::seeded(seed);
        // Ids have gaps, because some collections were deleted over the years.
        let mut ids: Vec<u64> = (1..=2 * COLLECTIONS as u64).collect();
        rng.shuffle(&mut ids);
        let collections = ids[..COLLECTIONS].iter().map(|&id| Collection {
            id,
            organisation: 1 + rng.below(ORGANISATIONS),
            private: rng.below(3) == 0,
        });
        Archive {
            seed,
            collections: collections.collect(),
        }
    }

    /// Returns the `n`-th capture. One capture in twenty is in a file whose name matches no rule.
    pub fn capture(&self, n: u64) -> Capture {
        let seed = self.seed.wrapping_add(n);
        let mut rng = Rng::seeded(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let timestamp = moment(&mut rng);
        let host = rng.below(5_000);
        let section = rng.pick(&["news", "culture", "archive", "politics"]);
        let path = format!("/{section}/{:x}", rng.below(1 << 32));
        Capture {
            urlkey: format!("org,site-{host})/{}", &path[1..]),
            timestamp,
            url: format!("https://site-{host}.org{path}"),
            mime: rng.pick::<&str>(&["text/html", "image/jpeg", "text/css"]),
            status: *rng.pick(&[200, 200, 200, 301, 404]),
            digest: base32(&mut rng),
            length: 500 + rng.below(100_000),
            offset: rng.below(1_000_000_000),
            filename: self.file(&mut rng, timestamp),
        }
    }

    /// Returns the `n`-th capture of an archive with [`IN_A_FILE`] captures per file.
    pub fn stored(&self, n: u64) -> Capture {
        Capture {
            filename: self.capture(n / IN_A_FILE).filename,
            ..self.capture(n)
        }
    }

    fn file(&self, rng: &mut Rng, timestamp: u64) -> String {
        let id = rng.pick(&self.collections).id;
        let serial = rng.below(100);
        let start = match rng.below(20) {
            0 => "WEB".to_owned(),
            1 | 2 => format!("/warcs/{}/ARCHIVEIT-{id}", id % 100),
            3..=6 => {
                let (often, job) = (rng.pick(&["WEEKLY", "MONTHLY", "TEST"]), rng.below(1 << 20));
                format!("ARCHIVEIT-{id}-{often}-JOB{job}")
            }
            _ => format!("ARCHIVEIT-{id}"),
        };
        format!("{start}-{timestamp}-{serial:05}.warc.gz")
    }

    /// Returns the ids of all collections as `1068|77|4`, in an order that depends on `order`.
    pub fn alternatives(&self, order: u64) -> String {
        let ids = self.collections.iter().map(|c| c.id.to_string());
        let mut ids: Vec<String> = ids.collect();
        Rng::seeded(self.seed ^ order << 32).shuffle(&mut ids);
        ids.join("|")
    }

    /// Returns the first `count` captures as a blob with one line each.
    pub fn blob(&self, count: u64, line: fn(&Capture) -> String) -> Vec<u8> {
        blob((0..count).map(|n| self.capture(n)), line)
    }
}

/// Formats captures as a blob with one line each.
pub fn blob(captures: impl IntoIterator<Item = Capture>, line: fn(&Capture) -> String) -> Vec<u8> {
    let lines = captures.into_iter().map(|capture| line(&capture) + "\n");
    lines.collect::<String>().into_bytes()
}

impl Capture {
    /// Formats a CDX line of 11 fields.
    pub fn cdx(&self) -> String {
        let Capture {
            mime,
            status,
            url,
            digest,
            length,
            offset,
            ..
        } = self;
        let start = format!(
            "{} {} {url} {mime} {status} {digest}",
            self.urlkey, self.timestamp
        );
        format!("{start} - - {length} {offset} {}", self.filename)
    }

    /// Formats a CDXJ line.
    pub fn cdxj(&self) -> String {
        let Capture {
            mime,
            status,
            url,
            digest,
            length,
            offset,
            ..
        } = self;
        format!(
            "{} {} {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"status\": \"{status}\", \"digest\": \"{digest}\", \
             \"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": \"{}\"}}",
            self.urlkey, self.timestamp, self.filename
        )
    }

    /// Returns the record id in the tagging index.
    pub fn record(&self) -> String {
        let Capture {
            urlkey,
            timestamp,
            offset,
            filename,
            ..
        } = self;
        format!("{urlkey} {timestamp} {filename} {offset}")
    }
}

/// Returns a random second within twelve years.
fn moment(rng: &mut Rng) -> u64 {
    let date = (2008 + rng.below(12)) * 10_000 + (1 + rng.below(12)) * 100 + 1 + rng.below(28);
    date * 1_000_000 + rng.below(24) * 10_000 + rng.below(60) * 100 + rng.below(60)
}

fn base32(rng: &mut Rng) -> String {
    let digit = |_| char::from(*rng.pick(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"));
    (0..32).map(digit).collect()
}
