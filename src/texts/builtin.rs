//! The symbol table that every index starts with. The table must never change, because saved values
//! refer to it.

use std::sync::OnceLock;

use super::matcher::Matcher;
use super::table::{Classes, NUMBERS, Symbol, Table};

/// Parts of URLs, separated by spaces. The parts in each line are about twice as frequent as the
/// parts in the next line.
const PARTS: [&str; 10] = [
    "- / _ e n o s t",
    "& . .html .jpg = ? a c d i r u",
    "% %2 /20 /s /wp-content/ 0 1 2 20 al docs er g h in int l m or p re st uploads/",
    "# %D0%B %D1%8 -s .css .js .png /a /c /p 3 4 5 6 7 8 9 an ar at b ed en es f ic index ing ion \
     it ite k le ma ode on ri te tes ti tion ture us v w",
    "-a -c -p .php /css/ /img /js/ 00 10 12 201 202 ; A C D F I P S age amp art as ati ce ch co \
     content de ect ence ent et ets files id images is ist la lan li media ment min nd ne news om \
     omm ons onte pe plugins ra res ro sets ta text th themes tr tra ur ve view wiki www x y",
    ".min.js .p .pdf .webp 01 ?id= ?v= ?ver= B E G H J L M N O R T U V W and arch ate con el ele \
     en/ est for https io ive j our q sid= tar ter ver z",
    "%3A%2F%2F + , .asp .com .gif .htm .jpeg .svg .woff2 /2024/ /2025/ /2026/ 300 : K Q X Y Z \
     action= article assets blog collections default document edi gallery history html http \
     journal library page product quality= report size= static the thumb/ title= topic tur user \
     utm_ video width= wikipedia www. ~",
    "! $ %20 %C3%A %D0% &id= ' ( ) * -1024x768 -150x150 -300x200 -and- .aspx .cgi .json .mp4 .net \
     .org .txt .xml /de/ /fr/ /v1/ 100 50 600 768 @ campaign= fbclid= feed/ fonts format= \
     includes large main medium= source= url= vendor wp-json",
    "-in- -of- -the- -to- .do .ico .m3u8 .mp3 .ts .zip /es/ /tag/ /v2/ 1024 150 200 800 about \
     ajax api/ archive author banner bootstrap bundle cart category chunk comments common commons \
     contact date= download event footer forum header height= icons image item jquery lang= logo \
     name= photo post profile public ref= search shop sites/ small story styles/ thread thumbnail \
     type= ures view= wp-includes/",
    "\" < > [ \\ ] ^ ` data: mailto: pageinfo screenshot text/ urn: uuid view: { | }",
];

/// Returns the built-in table, which all indexes share.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut symbols: Vec<(Symbol, u32)> = Vec::new();
        for (rank, parts) in PARTS.iter().enumerate() {
            for part in parts.split_ascii_whitespace() {
                let symbol = Symbol::text(part.as_bytes());
                if symbols.iter().all(|(other, _)| *other != symbol) {
                    symbols.push((symbol, 1 << (PARTS.len() - rank)));
                }
            }
        }
        symbols.push((Symbol::text(b" "), 8));
        symbols.sort_unstable();
        Table::new(&symbols, classes())
    })
}

/// Returns the matcher of the built-in table.
pub fn matcher() -> &'static Matcher {
    static MATCHER: OnceLock<Matcher> = OnceLock::new();
    MATCHER.get_or_init(|| Matcher::new(table()))
}

/// Returns codes for numbers that are optimized for dates within one month, records of any size,
/// and a few thousand hosts.
fn classes() -> [Classes; NUMBERS] {
    let around = |middle: usize, len: usize| {
        let count = |class: usize| 64 >> class.abs_diff(middle).min(6);
        Classes::new(&(0..len).map(count).collect::<Vec<u32>>())
    };
    // Classes of the first date format combined with the WACZ indexes 0, 1, 2 to 3, and so on.
    let head = Classes::new(&[1, 64, 16, 16, 8, 4, 2]);
    [head, around(19, 26), around(14, 30), around(8, 20)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn builtin_table_never_changes() {
        assert_eq!(xxh3_64(&table().save()), 10_671_516_579_005_428_860);
    }
}
