//! Metadata files of harvester jobs, as NetarchiveSuite writes them: reports, the crawl.log, and
//! the CDX of the stored files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use flate2::write::GzEncoder;

/// The format of a metadata file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// WARC/1.0.
    Warc,
    /// WARC with one gzip member per record.
    WarcGz,
    /// ARC, version 1.
    Arc,
    /// ARC with one gzip member per record.
    ArcGz,
}

impl Form {
    /// All formats.
    pub const ALL: [Form; 4] = [Form::Warc, Form::WarcGz, Form::Arc, Form::ArcGz];

    /// Returns the extension of such files: `.warc.gz`.
    pub fn ending(self) -> &'static str {
        match self {
            Form::Warc => ".warc",
            Form::WarcGz => ".warc.gz",
            Form::Arc => ".arc",
            Form::ArcGz => ".arc.gz",
        }
    }

    fn is_packed(self) -> bool {
        matches!(self, Form::WarcGz | Form::ArcGz)
    }

    fn is_arc(self) -> bool {
        matches!(self, Form::Arc | Form::ArcGz)
    }
}

/// Writes the records of a metadata file in order.
pub struct Metadata<W: Write> {
    out: W,
    form: Form,
    records: u64,
}

impl<W: Write> Metadata<W> {
    /// Starts a file with the record that describes it. `name` is the file name.
    ///
    /// # Errors
    /// Returns the errors of the writer.
    pub fn begin(out: W, name: &str, form: Form) -> io::Result<Metadata<W>> {
        let mut file = Metadata {
            out,
            form,
            records: 0,
        };
        if form.is_arc() {
            let block =
                "1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n";
            let head = format!(
                "filedesc://{name} 0.0.0.0 20130522091849 text/plain {}\n",
                block.len()
            );
            file.put(head.as_bytes(), &mut block.as_bytes(), b"\n")?;
            return Ok(file);
        }
        let block = "software: NetarchiveSuite/Version: 7.4\r\nformat: WARC File Format 1.0\r\n";
        let head = format!(
            "WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Date: 2013-05-22T09:18:49Z\r\nWARC-Filename: {name}\r\n\
             WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{:012}>\r\n\
             Content-Type: application/warc-fields\r\nContent-Length: {}\r\n\r\n",
            0,
            block.len()
        );
        file.put(head.as_bytes(), &mut block.as_bytes(), b"\r\n\r\n")?;
        Ok(file)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Returns the errors of the writer.
    pub fn record(&mut self, url: &str, media_type: &str, block: &[u8]) -> io::Result<()> {
        self.record_from(url, media_type, block.len() as u64, &mut &*block)
    }

    /// Adds a record of `length` bytes from a reader.
    ///
    /// # Errors
    /// Returns the errors of the writer and the reader.
    pub fn record_from(
        &mut self,
        url: &str,
        media_type: &str,
        length: u64,
        block: &mut dyn Read,
    ) -> io::Result<()> {
        self.records += 1;
        if self.form.is_arc() {
            let head = format!("{url} 172.16.13.127 20130522091850 {media_type} {length}\n");
            return self.put(head.as_bytes(), block, b"\n");
        }
        let head = format!(
            "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2013-05-22T09:18:50Z\r\n\
             WARC-IP-Address: 172.16.13.127\r\n\
             WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{:012}>\r\n\
             WARC-Warcinfo-ID: <urn:uuid:00000000-0000-4000-8000-{:012}>\r\n\
             Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n",
            self.records, 0
        );
        self.put(head.as_bytes(), block, b"\r\n\r\n")
    }

    /// Finishes the file and returns its writer.
    ///
    /// # Errors
    /// Returns the errors of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, head: &[u8], block: &mut dyn Read, end: &[u8]) -> io::Result<()> {
        let mut write = |out: &mut dyn Write| {
            out.write_all(head)?;
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match block.read(&mut buffer)? {
                    0 => break,
                    n => out.write_all(&buffer[..n])?,
                }
            }
            out.write_all(end)
        };
        if !self.form.is_packed() {
            return write(&mut self.out);
        }
        let mut member = GzEncoder::new(&mut self.out, flate2::Compression::fast());
        write(&mut member)?;
        member.finish()?;
        Ok(())
    }
}

/// Returns the URL of the crawl.log record of a job.
pub fn crawl_log_url(job: u64, harvest: u64) -> String {
    format!(
        "metadata://netarkivet.dk/crawl/logs/crawl.log?heritrixVersion=3.4.0&harvestid={harvest}&jobid={job}"
    )
}

/// Returns the URL of the CDX record of a job.
pub fn cdx_url(job: u64, harvest: u64) -> String {
    format!(
        "metadata://netarkivet.dk/crawl/index/cdx?majorversion=2&minorversion=0&harvestid={harvest}&jobid={job}\
         &filename={job}-{harvest}-20130522000000-00000-host.warc.gz"
    )
}

/// Writes the metadata file of a job: the crawl.log, the CDX, and the reports before and after
/// them.
///
/// # Panics
/// Panics if the metadata file cannot be written.
pub fn write_metadata(
    path: &Path,
    job: u64,
    harvest: u64,
    crawl_log: &[u8],
    cdx: Option<&[u8]>,
    form: Form,
) {
    let mut cdx = cdx;
    let cdx = cdx
        .as_mut()
        .map(|cdx| (cdx.len() as u64, cdx as &mut dyn Read));
    let crawl_log = (crawl_log.len() as u64, &mut { crawl_log } as &mut dyn Read);
    write_file(path, job, harvest, crawl_log, cdx, form);
}

/// Writes a metadata file from a crawl.log and a CDX on disk, for jobs that are too large for
/// memory.
///
/// # Panics
/// Panics if the metadata file cannot be written.
pub fn write_metadata_of(
    path: &Path,
    job: u64,
    harvest: u64,
    crawl_log: &Path,
    cdx: Option<&Path>,
    form: Form,
) {
    let open = |path: &Path| {
        let file = File::open(path).expect("lines of a job");
        (file.metadata().expect("a size").len(), file)
    };
    let (length, mut crawl_log) = open(crawl_log);
    let mut cdx = cdx.map(open);
    let cdx = cdx
        .as_mut()
        .map(|(length, file)| (*length, file as &mut dyn Read));
    write_file(path, job, harvest, (length, &mut crawl_log), cdx, form);
}

/// Returns the content of a metadata file.
pub fn metadata(
    name: &str,
    job: u64,
    harvest: u64,
    crawl_log: &[u8],
    cdx: Option<&[u8]>,
    form: Form,
) -> Vec<u8> {
    let mut cdx = cdx;
    let cdx = cdx
        .as_mut()
        .map(|cdx| (cdx.len() as u64, cdx as &mut dyn Read));
    let crawl_log = (crawl_log.len() as u64, &mut { crawl_log } as &mut dyn Read);
    write_all(Vec::new(), name, (job, harvest), crawl_log, cdx, form).expect("memory")
}

fn write_file(
    path: &Path,
    job: u64,
    harvest: u64,
    crawl_log: (u64, &mut dyn Read),
    cdx: Option<(u64, &mut dyn Read)>,
    form: Form,
) {
    let out = BufWriter::new(File::create(path).expect("a metadata file"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    write_all(out, &name, (job, harvest), crawl_log, cdx, form).expect("room for a metadata file");
}

fn write_all<W: Write>(
    out: W,
    name: &str,
    (job, harvest): (u64, u64),
    crawl_log: (u64, &mut dyn Read),
    cdx: Option<(u64, &mut dyn Read)>,
    form: Form,
) -> io::Result<W> {
    let base = "metadata://netarkivet.dk/crawl";
    let query = format!("heritrixVersion=3.4.0&harvestid={harvest}&jobid={job}");
    let mut file = Metadata::begin(out, name, form)?;
    file.record(
        &format!(
            "{base}/setup/duplicatereductionjobs?majorversion=1&minorversion=0&harvestid={harvest}\
             &harvestnum=1&jobid={job}"
        ),
        "text/plain",
        b"1,2",
    )?;
    for (name, media_type, text) in rows![
        "setup/crawler-beans.cxml", "text/xml", "<?xml version=\"1.0\"?>\n<beans/>\n";
        "setup/seeds.txt", "text/plain", "http://www.example.dk/\n";
        "reports/crawl-report.txt", "text/plain", "Crawl Name: 7\nCrawl Status: Finished\n";
        "reports/hosts-report.txt", "text/plain", "[#urls] [#bytes] [host]\n1 59 dns:\n";
    ] {
        file.record(
            &format!("{base}/{name}?{query}"),
            media_type,
            text.as_bytes(),
        )?;
    }
    let (length, crawl_log) = crawl_log;
    file.record_from(
        &crawl_log_url(job, harvest),
        "text/plain",
        length,
        crawl_log,
    )?;
    for (name, text) in [
        (
            "logs/progress-statistics.log",
            "20130522081849 CRAWL RUNNING - Running\n",
        ),
        ("logs/uri-errors.log", ""),
    ] {
        file.record(
            &format!("{base}/{name}?{query}"),
            "text/plain",
            text.as_bytes(),
        )?;
    }
    if let Some((length, cdx)) = cdx {
        file.record_from(&cdx_url(job, harvest), "application/x-cdx", length, cdx)?;
    }
    file.finish()
}
