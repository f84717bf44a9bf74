//! The encoding of messages. Unlike the codec of `tonic-prost`, it reports invalid bytes as an invalid argument.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes messages of type `T` and decodes messages of type `U`.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

/// Encodes messages.
#[derive(Debug)]
pub struct Writer<T>(PhantomData<T>);

/// Decodes messages.
#[derive(Debug)]
pub struct Reader<U>(PhantomData<U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Writer<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> Writer<T> {
        Writer(PhantomData)
    }

    fn decoder(&mut self) -> Reader<U> {
        Reader(PhantomData)
    }
}

impl<T: Message> Encoder for Writer<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl<U: Message + Default> Decoder for Reader<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let message = U::decode(buffer);
        message
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("invalid message: {error}")))
    }
}
