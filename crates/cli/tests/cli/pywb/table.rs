//! The queries that both are asked, and where their answers may differ.

/// A query, and how the two answers may differ.
pub struct Case {
    /// The collection.
    pub collection: &'static str,
    /// What stands after `index?`.
    pub query: &'static str,
    /// Why the answers may differ.
    pub accepted: Option<Accepted>,
}

/// A difference that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// A parameter that cannot be understood is refused with 400 and a JSON `message` (a rule of this API). pywb takes
    /// a default for it, fails with 500, or with 503.
    BadParameter,
    /// An unknown collection is 404 with a JSON `message`. pywb takes it for a folder that may come to be, and
    /// answers with no rows.
    UnknownCollection,
    /// A sort order that nobody knows is refused; pywb takes it for none.
    UnknownSort,
    /// Where nothing is found, pywb looks for similar URLs, by rules for certain web sites and for certain
    /// parameters. Here an exact query is exact.
    Fuzzy,
    /// `limit=0` asks for no rows. In pywb it asks for all of them, unless with `closest`, where it is none.
    LimitZero,
    /// pywb's parameter `s` is once the status and once the length, and the length wins.
    FieldNamedTwice,
    /// A source that nobody knows is refused; pywb gives no rows.
    UnknownSource,
    /// Half of a number of two digits, as in `2018022`: here it means all that it can be the beginning of, the days
    /// 20 to 29. In pywb it means the 20th as the first, and the 21st as the last.
    HalfNumber,
    /// The number of pages is JSON and says so, where pywb says that it is CDXJ.
    PagesAreJson,
    /// A TimeMap names the timegate, the TimeMap and the first and last memento (RFC 7089, section 5). pywb's index
    /// lists mementos alone, with the URL of the original in the place of that of the memento.
    TimeMap,
}

const fn same(collection: &'static str, query: &'static str) -> Case {
    Case {
        collection,
        query,
        accepted: None,
    }
}

const fn but(collection: &'static str, query: &'static str, accepted: Accepted) -> Case {
    Case {
        collection,
        query,
        accepted: Some(accepted),
    }
}

/// All of them.
pub const CASES: &[Case] = &[
    // One URL, however it is written.
    same("north", "url=http://example.com/"),
    same("north", "url=example.com"),
    same("north", "url=https://www.EXAMPLE.com"),
    same("north", "url=http://example.com:80/"),
    same("north", "url=http://example.com:8080/"),
    same("north", "url=http%3A%2F%2Fexample.com%2Fabout"),
    same("north", "url=http://example.com/about/"),
    same("north", "url=http://example.com/news/archive.html"),
    same("north", "url=http://example.com/img/photo%25201.jpg"),
    same("north", "url=http://example.com/img/photo%201.jpg"),
    same("north", "url=http://example.com/img/photo+1.jpg"),
    same("north", "url=http://example.com/search?q=archive"),
    same("north", "url=http://example.com/search?page=2%26q=archive"),
    same("north", "url=http://example.com/search?q=archive%26page=2"),
    same("north", "url=http://example.com/search?q=web%2Barchive"),
    same("north", "url=http://192.0.2.7/"),
    same("north", "url=http://example.com/#top"),
    same("north", "url=http://example.com/index.html"),
    same("north", "url=http://example.com/about&matchType=exact"),
    same(
        "north",
        "url=http://example.com/api/items?__wb_method=POST%26a=1%26b=2",
    ),
    // Nothing there.
    same("north", "url=http://nothing.example.net/"),
    same("north", "url=http://nothing.example.net/*"),
    same("north", "url=*.nothing.example.net"),
    same("north", "url=http://nothing.example.net/&closest=2018"),
    same(
        "north",
        "url=http://nothing.example.net/&output=json&sort=reverse&limit=1",
    ),
    but(
        "north",
        "url=http://example.com/app.js?_=123",
        Accepted::Fuzzy,
    ),
    // Many URLs.
    same("north", "url=http://example.com/*"),
    same("north", "url=example.com*"),
    same("north", "url=http://example.com/news/*"),
    same("north", "url=http://example.com/news*"),
    same("north", "url=http://example.com/search?*"),
    same(
        "north",
        "url=http://example.com/news/2019/&matchType=prefix",
    ),
    same("north", "url=http://example.com/news/&matchType=host"),
    same("north", "url=http://news.example.com/&matchType=host"),
    same("north", "url=http://example.com/about&matchType=domain"),
    same("north", "url=*.example.com"),
    same("north", "url=*.news.example.com"),
    same("north", "url=*.example.com/news/"),
    same("north", "url=com&matchType=domain"),
    same("north", "url=*.example"),
    same("north", "url=http://192.0.2.7/*"),
    // Time.
    same("north", "url=example.com&from=2018"),
    same("north", "url=example.com&to=2018"),
    same("north", "url=example.com&from=2018&to=2018"),
    same("north", "url=example.com&from=201803&to=201805"),
    same(
        "north",
        "url=example.com&from=20180601120100&to=20180601120100",
    ),
    same("north", "url=example.com&from=20180601&to=20180601"),
    same("north", "url=example.com&from=2019&to=2017"),
    same("north", "url=example.com&from=20&to=20"),
    but(
        "north",
        "url=http://example.com/*&from=2018021&to=2018022",
        Accepted::HalfNumber,
    ),
    same("north", "url=example.com&from_ts=2019"),
    same("north", "url=example.com&from=&to="),
    // Closest, with captures that are as far before as after.
    same("north", "url=example.com&closest=20180601120000"),
    same("north", "url=example.com&closest=20180601120000&limit=1"),
    same("north", "url=example.com&closest=20180601120000&limit=2"),
    same("north", "url=example.com&closest=20180601120000&limit=3"),
    same("north", "url=example.com&closest=20180601120000&limit=8"),
    same(
        "north",
        "url=example.com&closest=20180601120000&sort=closest",
    ),
    same("north", "url=example.com&closest=2018060112"),
    same("north", "url=example.com&closest=201806"),
    same("north", "url=example.com&closest=2018"),
    same("north", "url=example.com&closest=2018&limit=1"),
    same("north", "url=example.com&closest=1996"),
    same("north", "url=example.com&closest=20990101000000&limit=5"),
    same("north", "url=example.com&closest=now&limit=5"),
    same(
        "north",
        "url=example.com&closest=20180601120000&from=20180602",
    ),
    same(
        "north",
        "url=example.com&closest=20180601120000&filter=mime:revisit&limit=4",
    ),
    same(
        "north",
        "url=http://example.com/news/*&closest=20180601120000&limit=20",
    ),
    same(
        "north",
        "url=example.com&closest=20180601120000&collapseTime=6",
    ),
    same(
        "north",
        "url=example.com&closest=20180601120000&sort=reverse",
    ),
    same("north", "url=example.com&sort=closest"),
    // The other way round, and only some.
    same("north", "url=example.com&sort=reverse"),
    same("north", "url=example.com&reverse=true"),
    same("north", "url=example.com&reverse=1&limit=5"),
    same("north", "url=example.com&sort=reverse&limit=1"),
    same("north", "url=http://example.com/*&sort=reverse&limit=10"),
    same(
        "north",
        "url=http://example.com/*&sort=reverse&from=2018&to=2018",
    ),
    but(
        "north",
        "url=example.com&sort=sideways",
        Accepted::UnknownSort,
    ),
    same("north", "url=example.com&limit=1"),
    same("north", "url=example.com&limit=5"),
    same("north", "url=http://example.com/*&limit=1000000"),
    but("north", "url=example.com&limit=0", Accepted::LimitZero),
    // Filters.
    same("north", "url=*.example.com&filter=status:20"),
    same("north", "url=*.example.com&filter=%3Dstatus:200"),
    same("north", "url=*.example.com&filter=!status:20"),
    same("north", "url=*.example.com&filter=!%3Dstatus:200"),
    same("north", "url=*.example.com&filter=~status:[34]0."),
    same("north", "url=*.example.com&filter=!~status:[34]0."),
    same("north", "url=*.example.com&filter=~status:0&allowFuzzy=0"),
    same("north", "url=*.example.com&filter=mime:html"),
    same("north", "url=*.example.com&filter=%3Dmime:warc/revisit"),
    same("north", "url=*.example.com&filter=~mime:image/(png|jpeg)$"),
    same(
        "north",
        "url=*.example.com&filter=!mime:warc/revisit&filter=%3Dstatus:200",
    ),
    same("north", "url=*.example.com&filter=~url:.*(about|news).*"),
    same("north", "url=*.example.com&filter=urlkey:example,news"),
    same("north", "url=*.example.com&filter=~timestamp:2018(06|07)"),
    same("north", "url=*.example.com&filter=statuscode:404"),
    same("north", "url=*.example.com&filter=mimetype:css"),
    same("north", "url=*.example.com&filter=original:/search?q"),
    same("north", "url=*.example.com&filter=m:css"),
    same("north", "url=*.example.com&filter=t:2018"),
    but(
        "north",
        "url=*.example.com&filter=s:404&allowFuzzy=0",
        Accepted::FieldNamedTwice,
    ),
    same("north", "url=*.example.com&filter=filename:north-001"),
    same("north", "url=*.example.com&filter=~length:..$&allowFuzzy=0"),
    same("north", "url=*.example.com&filter=method:POST"),
    same("north", "url=*.example.com&filter=!method:POST&limit=30"),
    same("north", "url=*.example.com&filter=nosuch:x&allowFuzzy=0"),
    same("north", "url=*.example.com&filter=!nosuch:x&limit=30"),
    same("north", "url=*.example.com&filter=%3Dnosuch:&limit=30"),
    same("north", "url=*.example.com&filter=~requestBody:a%3D1"),
    same("north", "url=*.example.com&filter=redirect:about"),
    same("north", "url=example.com&filter=status:200:1&allowFuzzy=0"),
    same("north", "url=*.example.com&filter=photo"),
    same("north", "url=*.example.com&filter=!photo&limit=30"),
    same("north", "url=example.com&filter="),
    but(
        "north",
        "url=example.com&filter=~status:[",
        Accepted::BadParameter,
    ),
    but(
        "north",
        "url=example.com&filter=~status:(?=2)2",
        Accepted::BadParameter,
    ),
    // What rows look like.
    same("north", "url=example.com&output=json&limit=9"),
    same("north", "url=example.com&output=text&limit=9"),
    same("north", "url=example.com&output=cdxj&limit=9"),
    but("north", "url=example.com&output=link", Accepted::TimeMap),
    but(
        "north",
        "url=example.com&output=link&limit=1",
        Accepted::TimeMap,
    ),
    same("north", "url=example.com&fl=timestamp,status&output=json"),
    same(
        "north",
        "url=example.com&fields=urlkey,timestamp,url&output=text",
    ),
    same("north", "url=example.com&fl=url,digest"),
    same(
        "north",
        "url=example.com&fl=digest,nosuch&output=text&limit=3",
    ),
    same(
        "north",
        "url=example.com&fl=digest,nosuch&output=json&limit=3",
    ),
    same("north", "url=example.com&fl=nosuch&limit=3"),
    same(
        "north",
        "url=http://example.com/api/*&output=text&fl=url,method,requestBody",
    ),
    same(
        "north",
        "url=example.com&fields=status&fl=url&output=text&limit=3",
    ),
    but(
        "north",
        "url=example.com&output=xml",
        Accepted::BadParameter,
    ),
    // One a while.
    same("north", "url=example.com&collapseTime=4"),
    same("north", "url=example.com&collapseTime=6"),
    same("north", "url=http://example.com/*&collapseTime=8"),
    same("north", "url=example.com&collapseTime=14&limit=20"),
    same("north", "url=example.com&collapseTime=4&sort=reverse"),
    same(
        "north",
        "url=example.com&collapseTime=4&filter=%3Dstatus:200",
    ),
    // Revisits.
    same("north", "url=example.com&resolveRevisits=true"),
    same("north", "url=example.com&resolveRevisits=1&output=json"),
    same("north", "url=example.com&resolveRevisits=0&limit=20"),
    same(
        "north",
        "url=http://example.com/*&resolveRevisits=true&filter=mime:html",
    ),
    same(
        "north",
        "url=http://example.com/*&resolveRevisits=true&fl=timestamp,mime,orig.length,orig.offset,orig.filename&output=text",
    ),
    same(
        "north",
        "url=example.com&resolveRevisits=true&closest=20180601120000&limit=10",
    ),
    same(
        "north",
        "url=example.com&resolveRevisits=true&sort=reverse&limit=10",
    ),
    same(
        "north",
        "url=http://example.com/*&resolveRevisits=true&from=2018",
    ),
    same(
        "north",
        "url=http://example.com/*&resolveRevisits=true&filter=%3Dstatus:200",
    ),
    // What pywb's own programs ask.
    same("north", "url=http://example.com/*&content_type=text/html"),
    same(
        "north",
        "url=http://example.com/*&content_type=text/nothing&allowFuzzy=0",
    ),
    same("north", "url=example.com&nosource=true&limit=9"),
    same("north", "url=example.com&nosource=true&output=json&limit=9"),
    same("both", "url=example.com&nosource=false&limit=9"),
    same(
        "both",
        "url=example.com&fl=timestamp,source,source-coll&output=text",
    ),
    // What nobody knows, and what nobody understands.
    same("north", "url=example.com&colour=blue&limit=3"),
    same("north", "url=example.com&allowFuzzy=0&limit=3"),
    but("north", "", Accepted::BadParameter),
    but("north", "url=", Accepted::BadParameter),
    but(
        "north",
        "url=example.com&matchType=regex",
        Accepted::BadParameter,
    ),
    but(
        "north",
        "url=example.com&limit=many",
        Accepted::BadParameter,
    ),
    but("north", "url=example.com&limit=-1", Accepted::BadParameter),
    but(
        "north",
        "url=example.com&from=yesterday",
        Accepted::BadParameter,
    ),
    but(
        "north",
        "url=example.com&closest=soon",
        Accepted::BadParameter,
    ),
    but(
        "north",
        "url=example.com&collapseTime=x",
        Accepted::BadParameter,
    ),
    but("west", "url=example.com", Accepted::UnknownCollection),
    // Other kinds of sources.
    same("columns", "url=example.com"),
    same("columns", "url=example.com&output=text&limit=9"),
    same("columns", "url=example.com&output=json&limit=9"),
    same("columns", "url=http://example.com/*&filter=redirect:about"),
    same("columns", "url=http://example.com/*&filter=%3Dredirect:-"),
    same(
        "columns",
        "url=http://example.com/*&resolveRevisits=true&filter=%3Dstatus:200",
    ),
    same(
        "columns",
        "url=http://example.com/*&resolveRevisits=true&collapseTime=6",
    ),
    same(
        "columns",
        "url=example.com&fl=urlkey,timestamp,url,mime,status,digest,length,offset,filename&output=text",
    ),
    same(
        "columns",
        "url=*.example.com&fl=url,timestamp&filter=%3Dstatus:404",
    ),
    same(
        "columns",
        "url=example.com&closest=20180601120000&limit=4&fl=timestamp,filename,offset",
    ),
    same(
        "columns",
        "url=http://example.com/*&resolveRevisits=true&fl=timestamp,mime,orig.length,orig.offset,orig.filename",
    ),
    same("cluster", "url=example.com"),
    same("cluster", "url=http://example.com/"),
    same("cluster", "url=http://example.com/news/*"),
    same(
        "cluster",
        "url=http://news.example.com/*&sort=reverse&limit=50",
    ),
    same("cluster", "url=http://blog.example.org/*"),
    same("cluster", "url=http://nothing.example.net/"),
    same("cluster", "url=example.com&closest=20180601120000&limit=4"),
    same(
        "cluster",
        "url=example.com&from=2018&to=2018&filter=mime:html",
    ),
    same("cluster", "url=*.example.com&page=0"),
    same("cluster", "url=*.example.com&page=1&pageSize=2"),
    but(
        "cluster",
        "url=*.example.com&showNumPages=true",
        Accepted::PagesAreJson,
    ),
    but(
        "cluster",
        "url=http://nothing.example.net/&showNumPages=true",
        Accepted::PagesAreJson,
    ),
    but(
        "cluster",
        "url=*.example.com&page=9999",
        Accepted::BadParameter,
    ),
    same("sorted", "url=example.com"),
    same("sorted", "url=*.example.com"),
    same("sorted", "url=http://example.com/news/*"),
    same("sorted", "url=example.com&closest=20180601120000&limit=4"),
    same("sorted", "url=http://nothing.example.net/"),
    same("folder", "url=example.com"),
    same("folder", "url=http://example.com/*"),
    same("folder", "url=example.com&closest=20180601120000&limit=9"),
    same("folder", "url=*.example.org&sort=reverse&limit=40"),
    // A group.
    same("both", "url=example.com"),
    same("both", "url=http://example.com/*"),
    same("both", "url=*.example.com"),
    same("both", "url=example.com&closest=20180601120000"),
    same("both", "url=example.com&closest=20180601120000&limit=7"),
    same("both", "url=example.com&sort=reverse"),
    same("both", "url=example.com&limit=11"),
    same("both", "url=http://example.com/*&filter=%3Dsource:south"),
    same("both", "url=example.com&sources=south"),
    same("both", "url=example.com&sources=south,north"),
    same("both", "url=example.com&sources=!south"),
    but(
        "both",
        "url=example.com&sources=nobody",
        Accepted::UnknownSource,
    ),
    same("both", "url=example.com&sources=*"),
    same("both", "url=example.com&from=2018&to=2018&collapseTime=6"),
    same("both", "url=http://example.com/*&resolveRevisits=true"),
    same(
        "both",
        "url=example.com&fl=urlkey,timestamp,source&output=json",
    ),
];
