//! The table that every index begins with. Values refer to it wherever they are saved, so it must never
//! change.

use std::sync::OnceLock;

use super::matcher::Matcher;
use super::table::{Classes, Symbol, Table, NUMBERS};

/// Parts of URLs, the more frequent ones first; between them spaces.
const PARTS: [&str; 5] = [
    "/ - _ . e a t i s o r n / .html .jpg .png .js .css /wp-content/ uploads/ /20 20 ? = & % %2 -",
    "c l d p m u g h 1 2 0 in er re on en te es an al st or ar ti /s -s ed nd at it .p ing ion ent \
     news article images assets static media files content themes plugins /img /css/ /js/ index",
    "b f v k w 3 4 5 6 7 8 9 : , + ~ ; @ ! $ ' ( ) * # de ri ro is le ic ra co ve li ne om el et \
     ch la us as io ma pe th ta tr ur ce id -c -p -a /p /c /a .php .asp .gif .svg .webp .jpeg .xml \
     .pdf .htm .json .min.js .woff2 .mp4 .txt ?v= ?ver= ?id= &id= www. .com .org .net http https \
     %3A%2F%2F %20 %D0%B %D0% %D1%8 %C3%A 201 202 /2026/ /2025/ /2024/ 00 10 01 12",
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z j q x y z en/ /de/ /fr/ /es/ page \
     category /tag/ product author search about contact archive library journal history download \
     -300x200 -150x150 -1024x768 1024 768 300 200 150 600 800 100 50 the and for -of- -the- -in- \
     -to- -and- thumb/ small large default public sites/ styles/ common main vendor bundle chunk \
     fonts icons logo banner header footer ajax api/ /v1/ /v2/ feed/ comments includes jquery \
     bootstrap lang= utm_ source= medium= campaign= fbclid= width= height= quality= format= size= \
     title= action= view= type= name= date= url= ref= sid= .aspx .cgi .do .ico .mp3 .zip .m3u8 .ts \
     wp-json wp-includes/ wikipedia commons gallery photo video image document report event blog \
     story post topic forum thread user profile shop cart item collections",
    "\" < > [ ] ^ ` { | } \\ urn: uuid data: text/ mailto: screenshot view: pageinfo thumbnail",
];

/// The table, which all indexes share.
pub fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut symbols: Vec<(Symbol, u32)> = Vec::new();
        for (rank, parts) in PARTS.iter().enumerate() {
            for part in parts.split_ascii_whitespace() {
                let symbol = Symbol::text(part.as_bytes());
                if symbols.iter().all(|(other, _)| *other != symbol) {
                    symbols.push((symbol, 1 << (2 * (PARTS.len() - rank))));
                }
            }
        }
        symbols.push((Symbol::text(b" "), 4));
        symbols.sort_unstable();
        Table::new(&symbols, classes())
    })
}

/// What finds its symbols in texts.
pub fn matcher() -> &'static Matcher {
    static MATCHER: OnceLock<Matcher> = OnceLock::new();
    MATCHER.get_or_init(|| Matcher::new(table()))
}

/// Dates of a month, records of any size, some thousand hosts.
fn classes() -> [Classes; NUMBERS] {
    let around = |middle: usize, len: usize| {
        let count = |class: usize| 64 >> class.abs_diff(middle).min(6);
        Classes::new(&(0..len).map(count).collect::<Vec<u32>>())
    };
    // The first form of a date with indexes 0, 1, 2 to 3...
    let head = Classes::new(&[1, 64, 16, 16, 8, 4, 2]);
    [head, around(19, 26), around(14, 30), around(8, 20)]
}
