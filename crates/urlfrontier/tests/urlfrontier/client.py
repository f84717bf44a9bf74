"""Crawls through the URLFrontier service with grpcio: client.py FOLDER-OF-PROTO ADDRESS NUMBER."""

import sys
import tempfile

import grpc
from grpc_tools import protoc

folder, address, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
out = tempfile.mkdtemp()
arguments = ["protoc", f"-I{folder}", f"--python_out={out}", f"--grpc_python_out={out}", "urlfrontier.proto"]
assert protoc.main(arguments) == 0
sys.path.insert(0, out)
import urlfrontier_pb2 as pb  # noqa: E402
import urlfrontier_pb2_grpc as rpc  # noqa: E402

channel = grpc.insecure_channel(address)
frontier = rpc.URLFrontierStub(channel)
frontier.SetDelay(pb.QueueDelayParams(key="", delay_requestable=0))


def info(n):
    metadata = {"depth": pb.StringList(values=[str(n)])}
    return pb.URLInfo(url=f"http://q{n % 7}/{n}", key=f"q{n % 7}", metadata=metadata, crawlID="py")


def batches():
    for start in range(0, number, 256):
        yield pb.DiscoveredBatch(ID=str(start), items=[info(n) for n in range(start, min(start + 256, number))])


acknowledged = {ack.ID: ack.statuses for ack in frontier.PutDiscovered(batches())}
assert sum(len(statuses) for statuses in acknowledged.values()) == number
assert all(status == pb.AckMessage.OK for statuses in acknowledged.values() for status in statuses)

fetched = set()
while len(fetched) < number:
    got = list(frontier.GetURLs(pb.GetParams(max_queues=10, max_urls_per_queue=10, crawlID="py")))
    for url in got:
        assert url.url not in fetched and url.metadata["depth"].values[0] == url.url.rsplit("/")[-1]
        fetched.add(url.url)
    items = [pb.URLItem(known=pb.KnownURLItem(info=url, refetchable_from_date=0), ID=url.url) for url in got]
    acks = list(frontier.PutURLs(iter(items)))
    assert sorted(ack.ID for ack in acks) == sorted(url.url for url in got)
    assert all(ack.status == pb.AckMessage.OK for ack in acks)

stats = frontier.GetStats(pb.QueueWithinCrawlParams(crawlID="py"))
assert (stats.size, stats.inProcess, stats.counts["completed"]) == (0, 0, number), stats
frontier.BlockQueueUntil(pb.BlockQueueParams(key="q1", time=0))
try:
    frontier.GetURLStatus(pb.URLStatusRequest(url="http://q1/none", key="q1", crawlID="py"))
    raise AssertionError("the URL is unknown")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.NOT_FOUND
print("all URLs were crawled once")
