"""A gRPC server of shop.Cart, from compiled descriptors: server.py PROTOSET REFLECTION [KEY CERT].

REFLECTION is the version of the reflection service, or "none". Prints its port, and then a line
for each call: the method, the deadline, binary metadata and the message.
"""

import sys
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

descriptors = descriptor_pb2.FileDescriptorSet.FromString(open(sys.argv[1], "rb").read())
pool = descriptor_pool.DescriptorPool()
for file in descriptors.file:
    pool.Add(file)


def message(name):
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


Item, Total = message("shop.Item"), message("shop.Total")


def report(method, context, item):
    metadata = {key: value for key, value in context.invocation_metadata() if key.endswith("-bin")}
    # Without a deadline, the remaining time is that of 292 years.
    left = context.time_remaining()
    left = None if left is None or left > 1e6 else round(left)
    text = json_format.MessageToJson(item, indent=None).replace("\n", "")
    print(method, left, metadata, text, flush=True)


def total(item):
    sum = dict(currency=item.price.currency, cents=item.price.cents * item.quantity)
    return Total(items=item.quantity, sum=sum)


def fail_if_asked(item, context):
    if item.name.startswith("fail-"):
        codes = {code.value[0]: code for code in grpc.StatusCode}
        context.abort(codes[int(item.name[len("fail-"):])], "as asked")


def add(item, context):
    report("Add", context, item)
    fail_if_asked(item, context)
    if item.name == "slow":
        time.sleep(1)
    if item.name == "large":
        return Total(items=1, sum=dict(currency="x" * 100_000))
    return total(item)


def watch(item, context):
    report("Watch", context, item)
    for _ in range(item.quantity):
        yield total(item)
        time.sleep(0.002)
    fail_if_asked(item, context)


def add_all(items, context):
    items = list(items)
    return Total(items=sum(item.quantity for item in items))


def add_each(items, context):
    for item in items:
        yield total(item)


def handler(kind, function):
    return kind(
        function,
        request_deserializer=Item.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def field(tag, content):
    length, encoded = len(content), b""
    while length > 127:
        encoded += bytes([length & 127 | 128])
        length >>= 7
    return bytes([tag << 3 | 2]) + encoded + bytes([length]) + content


def reflect(requests, context):
    """Returns one file for each request, so that clients have to ask for imports."""
    for request in requests:
        tag, name = request[0] >> 3, request[2:].decode()
        try:
            find = pool.FindFileByName if tag == 3 else pool.FindFileContainingSymbol
            file = find(name).serialized_pb
            yield field(4, field(1, file))
        except KeyError:
            yield field(7, bytes([8, 5]) + field(2, b"not found: " + name.encode()))


def raw(handler):
    return grpc.stream_stream_rpc_method_handler(handler)


server = grpc.server(futures.ThreadPoolExecutor(8), compression=grpc.Compression.NoCompression)
cart = {
    "Add": handler(grpc.unary_unary_rpc_method_handler, add),
    "Watch": handler(grpc.unary_stream_rpc_method_handler, watch),
    "AddAll": handler(grpc.stream_unary_rpc_method_handler, add_all),
    "AddEach": handler(grpc.stream_stream_rpc_method_handler, add_each),
}
handlers = [grpc.method_handlers_generic_handler("shop.Cart", cart)]
if sys.argv[2] != "none":
    service = f"grpc.reflection.{sys.argv[2]}.ServerReflection"
    methods = {"ServerReflectionInfo": raw(reflect)}
    handlers.append(grpc.method_handlers_generic_handler(service, methods))
server.add_generic_rpc_handlers(tuple(handlers))
if len(sys.argv) > 3:
    key, cert = (open(name, "rb").read() for name in sys.argv[3:5])
    credentials = grpc.ssl_server_credentials([(key, cert)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
