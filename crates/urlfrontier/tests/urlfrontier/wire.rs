//! Messages as bytes, written by hand from the field numbers of URLFrontier's interface. Therefore, the
//! tests notice a mistake that client and service share.

use futures_util::StreamExt;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::stage::*;

/// Sends and receives bytes as they are.
#[derive(Default)]
struct Raw;

impl tonic::codec::Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let length = bytes::Buf::remaining(buffer);
        Ok(Some(bytes::Buf::copy_to_bytes(buffer, length).to_vec()))
    }
}

/// A field with a length: the number and type 2, the length, the bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

struct Wire(tonic::client::Grpc<Channel>);

impl Wire {
    async fn to(stage: &Stage) -> Wire {
        let endpoint = Endpoint::from_shared(format!("http://{}", stage.address)).unwrap();
        Wire(tonic::client::Grpc::new(endpoint.connect().await.unwrap()))
    }

    /// Sends messages, and returns the replies and the status at the end.
    async fn exchange(
        &mut self,
        path: &'static str,
        messages: Vec<Vec<u8>>,
    ) -> (Vec<Vec<u8>>, Code) {
        self.0.ready().await.unwrap();
        let messages = Request::new(futures_util::stream::iter(messages));
        let path = PathAndQuery::from_static(path);
        let mut replies = match self.0.streaming(messages, path, Raw).await {
            Ok(replies) => replies.into_inner(),
            Err(status) => return (Vec::new(), status.code()),
        };
        let mut got = Vec::new();
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(reply) => got.push(reply),
                Err(status) => return (got, status.code()),
            }
        }
        (got, Code::Ok)
    }
}

const PUT: &str = "/urlfrontier.URLFrontier/PutURLs";
const GET: &str = "/urlfrontier.URLFrontier/GetURLs";

#[tokio::test]
async fn items_and_urls_have_the_documented_numbers() {
    let stage = Stage::new().await;
    let mut wire = Wire::to(&stage).await;
    // URLInfo: url = 1, key = 2, metadata = 3 (an entry: key = 1, value = 2: StringList: values = 1), crawlID = 4.
    let values = [field(1, b"v1"), field(1, b"v2")].concat();
    let entry = [field(1, b"name"), field(2, &values)].concat();
    let url = [
        field(1, b"http://k/a"),
        field(2, b"k"),
        field(3, &entry),
        field(4, b"c"),
    ]
    .concat();
    // URLItem: discovered = 1 (info = 1), ID = 3. AckMessage: ID = 1, status = 2 (0, the default, is omitted).
    let item = [field(1, &field(1, &url)), field(3, b"id")].concat();
    let (acks, code) = wire.exchange(PUT, vec![item.clone(), item]).await;
    assert_eq!(code, Code::Ok);
    assert_eq!(
        acks,
        [field(1, b"id"), [&field(1, b"id")[..], &[0x10, 1]].concat()]
    );

    // GetParams: max_urls_per_queue = 1, max_queues = 2, delay_requestable = 4, crawlID = 6.
    let params = [&[0x08, 10, 0x10, 10, 0x20, 60][..], &field(6, b"c")].concat();
    let (urls, code) = wire.exchange(GET, vec![params]).await;
    assert_eq!((urls, code), (vec![url.clone()], Code::Ok));

    // KnownURLItem: info = 1, refetchable_from_date = 2; URLItem: known = 2.
    let known = [&field(1, &url)[..], &[0x10, 0]].concat();
    let (acks, _) = wire.exchange(PUT, vec![field(2, &known)]).await;
    assert_eq!(acks, [field(1, b"http://k/a")]);

    // QueueWithinCrawlParams: key = 1, crawlID = 2. Stats: size = 1, inProcess = 2, counts = 3, numberOfQueues = 4,
    // crawlID = 5.
    let asked = [field(1, b"k"), field(2, b"c")].concat();
    let stats = "/urlfrontier.URLFrontier/GetStats";
    let (replies, _) = wire.exchange(stats, vec![asked]).await;
    let completed = [&field(1, b"completed")[..], &[0x10, 1]].concat();
    // Fields whose value is 0 may be omitted.
    let reply = &replies[0];
    assert!(reply.windows(completed.len()).any(|part| part == completed));
    assert!(reply.ends_with(&[&[0x20, 1][..], &field(5, b"c")].concat()));
}

#[tokio::test]
async fn batches_have_the_documented_numbers() {
    let stage = Stage::new().await;
    let mut wire = Wire::to(&stage).await;
    let path = "/urlfrontier.URLFrontier/PutDiscovered";
    let a = [field(1, b"http://k/a"), field(2, b"k")].concat();
    let b = [field(1, b"http://k/b"), field(2, b"k")].concat();
    // DiscoveredBatch: ID = 1, items = 2. BatchAck: ID = 1, statuses = 2, packed.
    let batch = [field(1, b"7"), field(2, &a), field(2, &b), field(2, &a)].concat();
    let (acks, code) = wire.exchange(path, vec![batch]).await;
    assert_eq!(code, Code::Ok);
    assert_eq!(acks, [[field(1, b"7"), field(2, &[0, 0, 1])].concat()]);
}

#[tokio::test]
async fn delays_and_blocks_have_the_documented_numbers() {
    let stage = Stage::new().await;
    let mut wire = Wire::to(&stage).await;
    let mut client = stage.client().await;
    client.put(vec![discovered(info("k", "http://k/a"))]).await;
    // BlockQueueParams: key = 1, time = 2: 4 000 000 000 as a varint.
    let until = [0x10, 0x80, 0xd0, 0xac, 0xf3, 0x0e];
    // This time is more than ten years ahead.
    let block = "/urlfrontier.URLFrontier/BlockQueueUntil";
    let params = [&field(1, b"k")[..], &until].concat();
    assert_eq!(
        wire.exchange(block, vec![params]).await.1,
        Code::InvalidArgument
    );
    let soon = (seconds() + 3600) as u32;
    let mut varint = vec![0x10];
    for shift in [0, 7, 14, 21, 28] {
        let more = if shift == 28 { 0 } else { 0x80 };
        varint.push((soon >> shift) as u8 & 0x7f | more);
    }
    let params = [field(1, b"k"), varint].concat();
    let (replies, code) = wire.exchange(block, vec![params]).await;
    assert_eq!((replies, code), (vec![vec![]], Code::Ok));
    assert_eq!(client.get(0, 0).await, []);
    let params = field(1, b"k");
    assert_eq!(wire.exchange(block, vec![params]).await.1, Code::Ok);
    // QueueDelayParams: key = 1, delay_requestable = 2.
    let delay = "/urlfrontier.URLFrontier/SetDelay";
    let params = [&field(1, b"k")[..], &[0x10, 0]].concat();
    assert_eq!(wire.exchange(delay, vec![params]).await.1, Code::Ok);
    assert_eq!(client.get(0, 0).await.len(), 1);
}

#[tokio::test]
async fn invalid_bytes_are_an_invalid_argument() {
    let stage = Stage::new().await;
    let mut wire = Wire::to(&stage).await;
    let good = field(
        1,
        &field(1, &[field(1, b"http://k/a"), field(2, b"k")].concat()),
    );
    let latin = field(
        1,
        &field(1, &[field(1, b"http://k/\xe9"), field(2, b"k")].concat()),
    );
    for bad in [latin, vec![0x0a, 50], vec![0xff; 12]] {
        // Items that were sent before the invalid one are acknowledged.
        let (acks, code) = wire.exchange(PUT, vec![good.clone(), bad.clone()]).await;
        assert_eq!((acks.len(), code), (1, Code::InvalidArgument), "{bad:?}");
        let params = vec![bad];
        assert_eq!(wire.exchange(GET, params).await.1, Code::InvalidArgument);
    }
    // The generated code writes the same bytes.
    let item = discovered(info("k", "http://k/a"));
    assert_eq!(item.encode_to_vec(), good);
}
