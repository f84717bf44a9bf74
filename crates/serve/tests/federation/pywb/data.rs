//! Two generated archives on disk and in Redis, and the configuration that serves them here and in pywb.

use std::path::{Path, PathBuf};

use redis_tests::archive::collection::{Collection, Shape};
use redis_tests::pywb::Pywb;
use redis_tests::{Options, Rng, Server, ok, with};
use tempfile::TempDir;

/// Returns pywb, or `None` if it cannot be fetched.
pub fn pywb() -> Option<Pywb> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pywb");
    match Pywb::install(&folder) {
        Ok(pywb) => Some(pywb),
        Err(reason) => {
            redis_tests::packages::left_out("pywb", &reason);
            None
        }
    }
}

/// Two archives with captures of the same pages.
pub struct Data {
    dir: TempDir,
    /// The first archive.
    pub north: Collection,
    /// The second archive.
    pub south: Collection,
    redis: Server,
}

impl Data {
    /// Generates the archives, and writes files and indexes of every kind.
    pub fn new(test: &str) -> Data {
        let mut rng = Rng::new(test);
        let dir = tempfile::Builder::new()
            .prefix("crawlspace-")
            .tempdir()
            .unwrap();
        let mut make = |name: &'static str, captures| {
            let shape = with!(Shape, name, captures, odd: name == "south");
            let mut collection = Collection::new(&mut rng, shape);
            collection.store(&dir.path().join("warcs").join(name));
            collection
        };
        let (north, south) = (make("north", 2_000), make("south", 900));
        let write = |path: &str, text: String| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("north.cdxj", north.cdxj());
        write("south.cdxj", south.cdxj());
        write("north.cdx", north.cdx());
        write("indexes/north.cdxj", north.cdxj());
        write("indexes/south.cdxj", south.cdxj());
        north.cluster(&dir.path().join("cluster"), 40);
        let redis = Options::new().no_module().start();
        let mut wire = redis.wire();
        for line in north.cdxj_lines() {
            ok!(wire, "ZADD", "north:cdxj", 0, line.trim_end());
        }
        Data {
            dir,
            north,
            south,
            redis,
        }
    }

    /// Returns the folder of all files.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the folder of an archive's WARC files.
    pub fn warcs(&self, name: &str) -> PathBuf {
        self.path().join("warcs").join(name)
    }

    /// Returns the configuration in pywb's syntax.
    pub fn config(&self) -> String {
        let dir = self.path().display();
        let north = format!("archive_paths: {dir}/warcs/north/");
        let all = format!("archive_paths: [{dir}/warcs/north/, {dir}/warcs/south/]");
        format!(
            "collections:\n\
             \x20 north:\n    index_paths: {dir}/north.cdxj\n    {north}\n\
             \x20 south:\n    index_paths: {dir}/south.cdxj\n    archive_paths: {dir}/warcs/south/\n\
             \x20 columns:\n    index_paths: {dir}/north.cdx\n    {north}\n\
             \x20 cluster:\n    index_paths: zipnum+{dir}/cluster/cluster.idx\n    {north}\n\
             \x20 sorted:\n    index_paths: redis://127.0.0.1:{}/0/north:cdxj\n    {north}\n\
             \x20 folder:\n    index_paths: {dir}/indexes/\n    {all}\n\
             \x20 both:\n    index_group:\n      north: {dir}/north.cdxj\n      south: {dir}/south.cdxj\n    {all}\n",
            self.redis.port()
        )
    }
}
