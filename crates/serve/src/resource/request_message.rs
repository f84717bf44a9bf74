//! Parses a request that is posted as a message in the body of another request.
//!
//! Such messages are written by hand, so the parser is lenient: a missing version means 1.1, lines may end with a bare
//! LF, and a value may continue on the next line (RFC 9112, section 5.2). Without `Content-Length`, the body extends to
//! the end of the input.

use bytes::{Bytes, BytesMut};
use futures_util::stream::{BoxStream, StreamExt};
use http::Method;

use super::client_request::ClientRequest;
use super::record::LoadError;
use super::spool::Spool;
use crawlspace_fetch::exchange::{Version, is_token};
use crawlspace_warc::chunked::{Chunked, Piece};
use crawlspace_warc::http::{Head, length};

/// Maximum size of a header, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;

/// The first line: `GET / HTTP/1.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestLine {
    method: Method,
    version: Version,
}

/// Framing of the body of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    Rest,
}

/// Header of a message, and framing of its body.
#[derive(Clone, Debug)]
struct Message {
    request: ClientRequest,
    framing: Framing,
}

/// Reads a message whose body has up to `most` bytes. Bytes after the message are ignored.
///
/// # Errors
/// [`LoadError::Request`] if the message is invalid or incomplete; other errors if it cannot be received or stored.
pub async fn read(
    mut stream: BoxStream<'_, Result<Bytes, LoadError>>,
    most: u64,
) -> Result<ClientRequest, LoadError> {
    let mut buffer = BytesMut::new();
    let Message {
        mut request,
        framing,
    } = loop {
        let next = stream.next().await.transpose()?;
        let is_end = next.is_none();
        buffer.extend_from_slice(&next.unwrap_or_default());
        if let Some((message, length)) = head(&buffer, is_end)? {
            let _ = buffer.split_to(length.min(buffer.len()));
            break message;
        }
    };
    let mut spool = Spool::new(most);
    let mut chunked = Chunked::default();
    let cut_off = || wrong("its body is incomplete");
    loop {
        match &framing {
            Framing::Length(length) => {
                let left = usize::try_from(length - spool.length()).unwrap_or(usize::MAX);
                let bytes = buffer.split_to(buffer.len().min(left));
                spool.push(&bytes).await?;
                if spool.length() == *length {
                    break;
                }
            }
            Framing::Rest => spool.push(&buffer.split()).await?,
            Framing::Chunked => match chunked.next(&mut buffer).map_err(|why| wrong(&why))? {
                Piece::Data(bytes) => {
                    spool.push(&bytes).await?;
                    continue;
                }
                Piece::End => break,
                Piece::More => {}
            },
        }
        match (stream.next().await.transpose()?, &framing) {
            (Some(bytes), _) => buffer.extend_from_slice(&bytes),
            (None, Framing::Rest) => break,
            (None, _) => return Err(cut_off()),
        }
    }
    let body = spool.finish().await?;
    // A message that ends after its header has no body, which is different from an empty body. An
    // extra line break is ignored.
    let is_blank = matches!(request.method, Method::GET | Method::HEAD)
        && body
            .bytes()
            .is_some_and(|bytes| bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n')));
    if framing != Framing::Rest || !(body.is_empty() || is_blank) {
        request.body = Some(body);
    }
    Ok(request)
}

/// Parses the header at the start of the bytes, once it is complete, and returns it with its length. At the end of the
/// input, a header without an empty line is complete as well.
fn head(bytes: &[u8], is_end: bool) -> Result<Option<(Message, usize)>, LoadError> {
    let blank = bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .count();
    let rest = bytes.get(blank..).unwrap_or_default();
    let length = match (length(rest, 0), is_end) {
        (Some(length), _) => length,
        (None, true) => rest.len(),
        (None, false) if bytes.len() > MAX_HEAD => return Err(too_long()),
        (None, false) => return Ok(None),
    };
    if blank + length > MAX_HEAD {
        return Err(too_long());
    }
    let raw = Bytes::copy_from_slice(rest.get(..length).unwrap_or_default());
    let head = Head::new(raw, request_line)?;
    message(&head).map(|message| Some((message, blank + length)))
}

fn request_line(line: &[u8]) -> Result<RequestLine, LoadError> {
    // Some programs do not escape spaces in the path.
    let words: Vec<&[u8]> = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
        .collect();
    let (method, version) = match words[..] {
        [method, _] => (method, None),
        [method, _, version] => (method, Some(version)),
        [method, .., version] if version.starts_with(b"HTTP/") => (method, Some(version)),
        _ => (&b""[..], None),
    };
    let method = Method::from_bytes(method).ok().filter(|_| is_token(method));
    let method = method.ok_or_else(|| {
        let begin = line.get(..line.len().min(80)).unwrap_or_default();
        wrong(&format!(
            "invalid request line {:?}, expected one such as `GET / HTTP/1.1`",
            String::from_utf8_lossy(begin)
        ))
    })?;
    let version = match version {
        None | Some(b"HTTP/1.1") => Version::Http11,
        Some(b"HTTP/1.0") => Version::Http10,
        Some(other) => {
            let other =
                String::from_utf8_lossy(other.get(..other.len().min(40)).unwrap_or_default());
            return Err(wrong(&format!(
                "its version must be HTTP/1.1 or HTTP/1.0 (got {other:?})"
            )));
        }
    };
    Ok(RequestLine { method, version })
}

fn message(head: &Head<RequestLine>) -> Result<Message, LoadError> {
    let fields: Vec<(Bytes, Bytes)> = head
        .fields()
        .map(|field| {
            let value = Bytes::copy_from_slice(&field.unfolded());
            (Bytes::copy_from_slice(field.name), value)
        })
        .collect();
    if let Some((name, _)) = fields.iter().find(|(name, _)| !is_token(name)) {
        return Err(wrong(&format!(
            "invalid header field name {:?}",
            String::from_utf8_lossy(name)
        )));
    }
    if fields
        .iter()
        .any(|(_, value)| value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)))
    {
        return Err(wrong("a header field contains a line break or NUL"));
    }
    let is_chunked = match head.list("Transfer-Encoding").collect::<Vec<_>>()[..] {
        [] => false,
        [coding] if coding.eq_ignore_ascii_case(b"identity") => false,
        [coding] if coding.eq_ignore_ascii_case(b"chunked") => true,
        _ => {
            return Err(wrong(
                "its Transfer-Encoding is neither chunked nor identity",
            ));
        }
    };
    let length = head
        .content_length()
        .map_err(|_| wrong("invalid Content-Length: it must be a single number"))?;
    let framing = match (is_chunked, length) {
        (true, _) => Framing::Chunked,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::Rest,
    };
    Ok(Message {
        request: ClientRequest {
            method: head.first.method.clone(),
            version: head.first.version,
            fields,
            body: None,
            as_given: true,
        },
        framing,
    })
}

fn wrong(what: &str) -> LoadError {
    LoadError::Request(format!("the body is not a valid HTTP request: {what}"))
}

fn too_long() -> LoadError {
    wrong(&format!("its header is longer than {MAX_HEAD} bytes"))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Reads a message that arrives in pieces of this size.
    fn read_in(message: &[u8], piece: usize) -> Result<ClientRequest, LoadError> {
        let pieces: Vec<_> = message
            .chunks(piece.max(1))
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(read(stream::iter(pieces).boxed(), 1 << 20))
    }

    /// Method, version, fields and body of a request.
    type Parts = (String, Version, Vec<(String, String)>, Option<Vec<u8>>);

    fn parts(request: &ClientRequest) -> Parts {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        (
            request.method.to_string(),
            request.version,
            request
                .fields
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            request
                .body
                .as_ref()
                .map(|body| body.bytes().unwrap().to_vec()),
        )
    }

    #[test]
    fn handwritten_messages_are_parsed() {
        use Version::{Http10, Http11};
        for (message, method, version, fields, body) in [
            ("GET /", "GET", Http11, &[][..], None),
            ("GET / HTTP/1.1\r\n\r\n", "GET", Http11, &[], None),
            ("GET /a b  c HTTP/1.0\r\n\r\n", "GET", Http10, &[], None),
            ("\r\n\nHEAD / HTTP/1.0\n\n", "HEAD", Http10, &[], None),
            (
                "GET /\nUser-Agent: x y \nA:b\n\n",
                "GET",
                Http11,
                &[("User-Agent", "x y"), ("A", "b")],
                None,
            ),
            ("GET /\r\nA: b", "GET", Http11, &[("A", "b")], None),
            (
                "GET /\r\nA: b\r\n\tc\r\n  d\r\nE:\r\n\r\n",
                "GET",
                Http11,
                &[("A", "b c d"), ("E", "")],
                None,
            ),
            ("FROB  *\tHTTP/1.1\n\n", "FROB", Http11, &[], None),
            ("GET /\n\n\r\n\n", "GET", Http11, &[], None),
            (
                "POST /\n\nall of this\r\n",
                "POST",
                Http11,
                &[],
                Some("all of this\r\n"),
            ),
            (
                "POST /\nContent-Length: 3\n\nabcdef",
                "POST",
                Http11,
                &[("Content-Length", "3")],
                Some("abc"),
            ),
            (
                "POST /\nContent-Length: 0\n\n",
                "POST",
                Http11,
                &[("Content-Length", "0")],
                Some(""),
            ),
            (
                "POST /\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n0\r\n\r\n",
                "POST",
                Http11,
                &[("Transfer-Encoding", "chunked")],
                Some("abc"),
            ),
        ] {
            let fields = fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let expected = (
                method.to_owned(),
                version,
                fields.collect::<Vec<_>>(),
                body.map(|body| body.as_bytes().to_vec()),
            );
            for piece in 1..=message.len() {
                let request = read_in(message.as_bytes(), piece).unwrap();
                assert!(request.as_given);
                assert_eq!(parts(&request), expected, "{message:?} {piece}");
            }
        }
    }

    #[test]
    fn invalid_message_is_refused() {
        let long = format!("GET /\nA: {}\n\n", "x".repeat(MAX_HEAD));
        for wrong in [
            "",
            "\r\n\r\n",
            "GET",
            "G(T /\n\n",
            "GET / HTTP/2\n\n",
            "GET / HTTP/1.1 more\n\n",
            "GET / http/1.1\n\n",
            "GET /\nA b: c\n\n",
            "GET /\nA: b\0c\n\n",
            "GET /\nA: b\rc\n\n",
            "POST /\nContent-Length: -1\n\n",
            "POST /\nContent-Length: 99999999999999999999\n\n",
            "POST /\nContent-Length: 1, 2\n\nab",
            "POST /\nContent-Length: 10\n\nabc",
            "POST /\nTransfer-Encoding: gzip, chunked\n\n0\r\n\r\n",
            "POST /\nTransfer-Encoding: chunked\n\n3\r\nab",
            "POST /\nTransfer-Encoding: chunked\n\nx",
            &long,
        ] {
            for piece in [1, 5, wrong.len()] {
                let refused = read_in(wrong.as_bytes(), piece);
                assert!(
                    matches!(refused, Err(LoadError::Request(_))),
                    "{wrong:?}: {refused:?}"
                );
            }
        }
        let too_much = format!("POST /\n\n{}", "x".repeat((1 << 20) + 1));
        assert!(matches!(
            read_in(too_much.as_bytes(), 10_000),
            Err(LoadError::Net(_))
        ));
    }

    proptest! {
        #[test]
        fn written_message_reads_back(
            method in "[A-Za-z!#$%&'*+.^_`|~-]{1,8}",
            target in "[!-~]{1,20}",
            version in prop_oneof![Just(""), Just(" HTTP/1.1"), Just(" HTTP/1.0")],
            fields in vec(("[A-Za-z][A-Za-z0-9-]{0,10}", "([!-~]([ -~\\t]{0,20}[!-~])?)?"), 0..6),
            body in vec(any::<u8>(), 0..200),
            crlf in any::<bool>(),
            with_length in any::<bool>(),
            piece in 1usize..50,
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let fields: Vec<(String, String)> = fields
                .into_iter()
                .map(|(name, value)| (format!("X{name}"), value))
                .collect();
            let mut message = format!("{method} {target}{version}{end}").into_bytes();
            for (name, value) in &fields {
                message.extend_from_slice(format!("{name}: {value}{end}").as_bytes());
            }
            let mut expected = fields.clone();
            if with_length {
                message.extend_from_slice(format!("Content-Length: {}{end}", body.len()).as_bytes());
                expected.push(("Content-Length".to_owned(), body.len().to_string()));
            }
            message.extend_from_slice(end.as_bytes());
            message.extend_from_slice(&body);
            let request = parts(&read_in(&message, piece).unwrap());
            prop_assert_eq!(request.0, method);
            prop_assert_eq!(request.1, if version == " HTTP/1.0" { Version::Http10 } else { Version::Http11 });
            prop_assert_eq!(request.2, expected);
            prop_assert_eq!(request.3, (with_length || !body.is_empty()).then_some(body));
        }

        #[test]
        fn parsing_does_not_depend_on_chunk_boundaries(
            message in vec(prop_oneof![
                Just(b"\r\n".to_vec()), Just(b"\n".to_vec()), Just(b"GET / ".to_vec()), Just(b"HTTP/1.1".to_vec()),
                Just(b"Content-Length: ".to_vec()), Just(b"Transfer-Encoding: chunked".to_vec()), Just(b" ".to_vec()),
                Just(b":".to_vec()), vec(any::<u8>(), 0..4),
            ], 0..12),
            piece in 1usize..20,
        ) {
            let message = message.concat();
            let whole = read_in(&message, message.len());
            let pieces = read_in(&message, piece);
            match (&whole, &pieces) {
                (Ok(whole), Ok(pieces)) => prop_assert_eq!(parts(whole), parts(pieces)),
                (Err(_), Err(_)) => {}
                _ => prop_assert!(false, "{:?} {:?}", whole.is_ok(), pieces.is_ok()),
            }
        }
    }
}
