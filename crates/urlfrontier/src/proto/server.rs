// Generated from proto/urlfrontier.proto by scripts/urlfrontier-proto; do not edit.
use super::*;
/// Generated server implementations.
pub mod url_frontier_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with UrlFrontierServer.
    #[async_trait]
    pub trait UrlFrontier: std::marker::Send + std::marker::Sync + 'static {
        /// Lists the nodes of the service.
        async fn list_nodes(
            &self,
            request: tonic::Request<super::Empty>,
        ) -> std::result::Result<tonic::Response<super::StringList>, tonic::Status>;
        /// Lists the crawls that have queued URLs.
        async fn list_crawls(
            &self,
            request: tonic::Request<super::Local>,
        ) -> std::result::Result<tonic::Response<super::StringList>, tonic::Status>;
        /// Removes all URLs of a crawl, and returns their number.
        async fn delete_crawl(
            &self,
            request: tonic::Request<super::DeleteCrawlMessage>,
        ) -> std::result::Result<tonic::Response<super::Long>, tonic::Status>;
        /// Lists the queues of a crawl.
        async fn list_queues(
            &self,
            request: tonic::Request<super::Pagination>,
        ) -> std::result::Result<tonic::Response<super::QueueList>, tonic::Status>;
        /// Server streaming response type for the GetURLs method.
        type GetURLsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::UrlInfo, tonic::Status>,
            > + std::marker::Send
            + 'static;
        /// Returns URLs to fetch now, without waiting.
        async fn get_ur_ls(
            &self,
            request: tonic::Request<super::GetParams>,
        ) -> std::result::Result<tonic::Response<Self::GetURLsStream>, tonic::Status>;
        /// Server streaming response type for the PutURLs method.
        type PutURLsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::AckMessage, tonic::Status>,
            > + std::marker::Send
            + 'static;
        /// Adds and updates URLs one by one. Each item is acknowledged once.
        async fn put_ur_ls(
            &self,
            request: tonic::Request<tonic::Streaming<super::UrlItem>>,
        ) -> std::result::Result<tonic::Response<Self::PutURLsStream>, tonic::Status>;
        /// Server streaming response type for the PutDiscovered method.
        type PutDiscoveredStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::BatchAck, tonic::Status>,
            > + std::marker::Send
            + 'static;
        /// Adds URLs in batches. Each batch is acknowledged once.
        async fn put_discovered(
            &self,
            request: tonic::Request<tonic::Streaming<super::DiscoveredBatch>>,
        ) -> std::result::Result<tonic::Response<Self::PutDiscoveredStream>, tonic::Status>;
        /// Returns the figures of a crawl, or of one queue of it.
        async fn get_stats(
            &self,
            request: tonic::Request<super::QueueWithinCrawlParams>,
        ) -> std::result::Result<tonic::Response<super::Stats>, tonic::Status>;
        /// Removes the URLs of one queue of a crawl, and returns their number.
        async fn delete_queue(
            &self,
            request: tonic::Request<super::QueueWithinCrawlParams>,
        ) -> std::result::Result<tonic::Response<super::Long>, tonic::Status>;
        /// Withholds a queue until a time, or ends this.
        async fn block_queue_until(
            &self,
            request: tonic::Request<super::BlockQueueParams>,
        ) -> std::result::Result<tonic::Response<super::Empty>, tonic::Status>;
        /// Pauses and resumes the whole frontier.
        async fn set_active(
            &self,
            request: tonic::Request<super::Active>,
        ) -> std::result::Result<tonic::Response<super::Empty>, tonic::Status>;
        /// Returns false while the frontier is paused.
        async fn get_active(
            &self,
            request: tonic::Request<super::Local>,
        ) -> std::result::Result<tonic::Response<super::Boolean>, tonic::Status>;
        /// Sets the pause between two deliveries from a queue, or the default of all queues.
        async fn set_delay(
            &self,
            request: tonic::Request<super::QueueDelayParams>,
        ) -> std::result::Result<tonic::Response<super::Empty>, tonic::Status>;
        /// Changes the log level.
        async fn set_log_level(
            &self,
            request: tonic::Request<super::LogLevelParams>,
        ) -> std::result::Result<tonic::Response<super::Empty>, tonic::Status>;
        /// Sets the number of completed URLs after which a queue is not served any more.
        async fn set_crawl_limit(
            &self,
            request: tonic::Request<super::CrawlLimitParams>,
        ) -> std::result::Result<tonic::Response<super::Empty>, tonic::Status>;
        /// Returns the state of one URL.
        async fn get_url_status(
            &self,
            request: tonic::Request<super::UrlStatusRequest>,
        ) -> std::result::Result<tonic::Response<super::UrlItem>, tonic::Status>;
        /// Server streaming response type for the ListURLs method.
        type ListURLsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::UrlItem, tonic::Status>,
            > + std::marker::Send
            + 'static;
        /// Lists the URLs of a crawl.
        async fn list_ur_ls(
            &self,
            request: tonic::Request<super::ListUrlParams>,
        ) -> std::result::Result<tonic::Response<Self::ListURLsStream>, tonic::Status>;
        /// Counts the URLs of a crawl.
        async fn count_ur_ls(
            &self,
            request: tonic::Request<super::CountUrlParams>,
        ) -> std::result::Result<tonic::Response<super::Long>, tonic::Status>;
        /// Removes URLs that are older than a number of days, and returns their number.
        async fn purge_ur_ls(
            &self,
            request: tonic::Request<super::PurgeUrlParams>,
        ) -> std::result::Result<tonic::Response<super::Long>, tonic::Status>;
    }
    #[derive(Debug)]
    pub struct UrlFrontierServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> UrlFrontierServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(inner: T, interceptor: F) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for UrlFrontierServer<T>
    where
        T: UrlFrontier,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/urlfrontier.URLFrontier/ListNodes" => {
                    #[allow(non_camel_case_types)]
                    struct ListNodesSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::Empty> for ListNodesSvc<T> {
                        type Response = super::StringList;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(&mut self, request: tonic::Request<super::Empty>) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::list_nodes(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListNodesSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/ListCrawls" => {
                    #[allow(non_camel_case_types)]
                    struct ListCrawlsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::Local> for ListCrawlsSvc<T> {
                        type Response = super::StringList;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(&mut self, request: tonic::Request<super::Local>) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::list_crawls(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListCrawlsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/DeleteCrawl" => {
                    #[allow(non_camel_case_types)]
                    struct DeleteCrawlSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::DeleteCrawlMessage> for DeleteCrawlSvc<T> {
                        type Response = super::Long;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::DeleteCrawlMessage>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::delete_crawl(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DeleteCrawlSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/ListQueues" => {
                    #[allow(non_camel_case_types)]
                    struct ListQueuesSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::Pagination> for ListQueuesSvc<T> {
                        type Response = super::QueueList;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::Pagination>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::list_queues(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListQueuesSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/GetURLs" => {
                    #[allow(non_camel_case_types)]
                    struct GetURLsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::ServerStreamingService<super::GetParams> for GetURLsSvc<T> {
                        type Response = super::UrlInfo;
                        type ResponseStream = T::GetURLsStream;
                        type Future =
                            BoxFuture<tonic::Response<Self::ResponseStream>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut =
                                async move { <T as UrlFrontier>::get_ur_ls(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetURLsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/PutURLs" => {
                    #[allow(non_camel_case_types)]
                    struct PutURLsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::StreamingService<super::UrlItem> for PutURLsSvc<T> {
                        type Response = super::AckMessage;
                        type ResponseStream = T::PutURLsStream;
                        type Future =
                            BoxFuture<tonic::Response<Self::ResponseStream>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<tonic::Streaming<super::UrlItem>>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut =
                                async move { <T as UrlFrontier>::put_ur_ls(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PutURLsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/PutDiscovered" => {
                    #[allow(non_camel_case_types)]
                    struct PutDiscoveredSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::StreamingService<super::DiscoveredBatch>
                        for PutDiscoveredSvc<T>
                    {
                        type Response = super::BatchAck;
                        type ResponseStream = T::PutDiscoveredStream;
                        type Future =
                            BoxFuture<tonic::Response<Self::ResponseStream>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<tonic::Streaming<super::DiscoveredBatch>>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::put_discovered(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PutDiscoveredSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/GetStats" => {
                    #[allow(non_camel_case_types)]
                    struct GetStatsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::QueueWithinCrawlParams> for GetStatsSvc<T> {
                        type Response = super::Stats;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::QueueWithinCrawlParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut =
                                async move { <T as UrlFrontier>::get_stats(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetStatsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/DeleteQueue" => {
                    #[allow(non_camel_case_types)]
                    struct DeleteQueueSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::QueueWithinCrawlParams>
                        for DeleteQueueSvc<T>
                    {
                        type Response = super::Long;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::QueueWithinCrawlParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::delete_queue(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DeleteQueueSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/BlockQueueUntil" => {
                    #[allow(non_camel_case_types)]
                    struct BlockQueueUntilSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::BlockQueueParams>
                        for BlockQueueUntilSvc<T>
                    {
                        type Response = super::Empty;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::BlockQueueParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::block_queue_until(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = BlockQueueUntilSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/SetActive" => {
                    #[allow(non_camel_case_types)]
                    struct SetActiveSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::Active> for SetActiveSvc<T> {
                        type Response = super::Empty;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(&mut self, request: tonic::Request<super::Active>) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::set_active(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SetActiveSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/GetActive" => {
                    #[allow(non_camel_case_types)]
                    struct GetActiveSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::Local> for GetActiveSvc<T> {
                        type Response = super::Boolean;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(&mut self, request: tonic::Request<super::Local>) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::get_active(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetActiveSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/SetDelay" => {
                    #[allow(non_camel_case_types)]
                    struct SetDelaySvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::QueueDelayParams> for SetDelaySvc<T> {
                        type Response = super::Empty;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::QueueDelayParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut =
                                async move { <T as UrlFrontier>::set_delay(&inner, request).await };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SetDelaySvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/SetLogLevel" => {
                    #[allow(non_camel_case_types)]
                    struct SetLogLevelSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::LogLevelParams> for SetLogLevelSvc<T> {
                        type Response = super::Empty;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::LogLevelParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::set_log_level(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SetLogLevelSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/SetCrawlLimit" => {
                    #[allow(non_camel_case_types)]
                    struct SetCrawlLimitSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::CrawlLimitParams> for SetCrawlLimitSvc<T> {
                        type Response = super::Empty;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CrawlLimitParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::set_crawl_limit(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SetCrawlLimitSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/GetURLStatus" => {
                    #[allow(non_camel_case_types)]
                    struct GetURLStatusSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::UrlStatusRequest> for GetURLStatusSvc<T> {
                        type Response = super::UrlItem;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::UrlStatusRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::get_url_status(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetURLStatusSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/ListURLs" => {
                    #[allow(non_camel_case_types)]
                    struct ListURLsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::ServerStreamingService<super::ListUrlParams>
                        for ListURLsSvc<T>
                    {
                        type Response = super::UrlItem;
                        type ResponseStream = T::ListURLsStream;
                        type Future =
                            BoxFuture<tonic::Response<Self::ResponseStream>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListUrlParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::list_ur_ls(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListURLsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/CountURLs" => {
                    #[allow(non_camel_case_types)]
                    struct CountURLsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::CountUrlParams> for CountURLsSvc<T> {
                        type Response = super::Long;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CountUrlParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::count_ur_ls(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CountURLsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/urlfrontier.URLFrontier/PurgeURLs" => {
                    #[allow(non_camel_case_types)]
                    struct PurgeURLsSvc<T: UrlFrontier>(pub Arc<T>);
                    impl<T: UrlFrontier> tonic::server::UnaryService<super::PurgeUrlParams> for PurgeURLsSvc<T> {
                        type Response = super::Long;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::PurgeUrlParams>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as UrlFrontier>::purge_ur_ls(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PurgeURLsSvc(inner);
                        let codec = crate::codec::Codec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => Box::pin(async move {
                    let mut response = http::Response::new(tonic::body::Body::default());
                    let headers = response.headers_mut();
                    headers.insert(
                        tonic::Status::GRPC_STATUS,
                        (tonic::Code::Unimplemented as i32).into(),
                    );
                    headers.insert(
                        http::header::CONTENT_TYPE,
                        tonic::metadata::GRPC_CONTENT_TYPE,
                    );
                    Ok(response)
                }),
            }
        }
    }
    impl<T> Clone for UrlFrontierServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "urlfrontier.URLFrontier";
    impl<T> tonic::server::NamedService for UrlFrontierServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
