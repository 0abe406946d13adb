"""Plays the server's part of the cases of Autobahn's client tests, with the frames of wsproto.

A message of the client names a case. The server plays it, and notes how the client ends the
WebSocket: the code of its close frame, or `pong` with the payloads of its pongs.
"""

import socket
import struct
import sys
import threading

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, Request
from wsproto.events import TextMessage
from wsproto.extensions import PerMessageDeflate

ports, notes = sys.argv[1:3], sys.argv[3]
lock = threading.Lock()


def frame(opcode, payload=b"", fin=True, rsv=0):
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([size])
    elif size < 65536:
        head += b"\x7e" + struct.pack(">H", size)
    else:
        head += b"\x7f" + struct.pack(">Q", size)
    return head + payload


def text(payload, parts=1):
    """A message in fragments."""
    payload = payload if isinstance(payload, bytes) else payload.encode()
    size = max(1, -(-len(payload) // parts))
    pieces = [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
    last = len(pieces) - 1
    return [frame(0 if n else 1, piece, n == last) for n, piece in enumerate(pieces)]


def close(code, reason=b""):
    return [frame(8, struct.pack(">H", code) + reason)]


# Each case has frames, and the number of bytes of each write, or None.
GOOD, BAD, ENDS = {}, {}, {}
for size in (0, 125, 126, 127, 128, 65535, 65536):
    GOOD[f"1.1-{size}"] = text("*" * size), None
    GOOD[f"1.2-{size}"] = [frame(2, b"\xfe" * size)], None
    GOOD[f"1.1-{size}-chopped"] = text("*" * size), 997 if size > 200 else 1
for size in (0, 5, 125):
    GOOD[f"2-ping-{size}"] = [frame(9, b"p" * size)] + text("x"), None
    GOOD[f"2-ping-{size}-chopped"] = [frame(9, b"p" * size)] + text("x"), 1
GOOD["2-pongs"] = [frame(10, b"unasked")] * 3 + text("x"), None
GOOD["2-pings"] = [frame(9, b"p%d" % n) for n in range(10)] + text("x"), None
BAD["2-ping-126"] = [frame(9, b"p" * 126)], 1002
for rsv in range(1, 8):
    BAD[f"3-{rsv}"] = [frame(1, b"x", rsv=rsv)], 1002
    BAD[f"3-ping-{rsv}"] = [frame(9, b"x", rsv=rsv)], 1002
for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
    BAD[f"4-{opcode}"] = [frame(opcode, b"x")], 1002
for kind in (9, 10):
    BAD[f"5-control-{kind}"] = [frame(kind, b"a", fin=False), frame(0, b"b")], 1002
GOOD["5-two"] = text("fragment1fragment2", 2), None
GOOD["5-ping-between"] = [text("ab", 2)[0], frame(9, b"between"), text("ab", 2)[1]], None
GOOD["5-ping-between-chopped"] = GOOD["5-ping-between"][0], 1
GOOD["5-empty"] = [frame(1, fin=False), frame(0, fin=False), frame(0)], None
GOOD["5-many"] = text("x" * 500, 500), None
BAD["5-lone-end"] = [frame(0, b"x")], 1002
BAD["5-lone-part"] = [frame(0, b"x", fin=False)], 1002
BAD["5-nested"] = [frame(1, b"a", fin=False), frame(1, b"b")], 1002
KAPPA = "Hello-µ@ßöäüàá-UTF-8!! κόσμε \U0001f600 \ufffe\uffff\U0010ffff"
GOOD["6-whole"] = text(KAPPA), None
GOOD["6-bytes"] = text(KAPPA, 1000), None
GOOD["6-chopped"] = text(KAPPA), 1
INVALID = [
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    b"\xf4\x90\x80\x80", b"\x80", b"\xbf", b"\xc0", b"\xe0\x80", b"\xf0\x80\x80", b"\xfe", b"\xff",
    b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf", b"\xed\xa0\x80", b"\xed\xaf\xbf", b"\xed\xb0\x80", b"\xf8\x88\x80\x80\x80",
    b"\xce", b"\xe1\xbd", b"\xf0\x9f\x98",
]
for n, payload in enumerate(INVALID):
    BAD[f"6-{n}"] = text(payload), 1007
    BAD[f"6-{n}-bytes"] = text(b"valid" + payload, 1000), 1007
for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
    ENDS[f"7-{code}"] = close(code, b"a reason"), code
ENDS["7-none"] = [frame(8)], 1005
ENDS["7-long-reason"] = close(1000, b"r" * 123), 1000
ENDS["7-twice"] = close(1000) + close(1000), 1000
ENDS["7-data-after"] = close(1000) + text("late"), 1000
for code in (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535):
    BAD[f"7-bad-{code}"] = close(code), 1002
BAD["7-one-byte"] = [frame(8, b"\x03")], 1002
BAD["7-too-long"] = close(1000, b"r" * 124), 1002
BAD["7-reason-utf8"] = close(1000, b"\xff"), 1002
for size in (1 << 20, 4 << 20):
    GOOD[f"9-{size}"] = text("*" * size), None
    GOOD[f"9-{size}-parts"] = text("*" * size, size // 65536), None
GOOD["9-chopped"] = text("*" * (1 << 20)), 1024


ALL = GOOD | BAD | ENDS


def play(client, name):
    frames, chop = ALL[name]
    chop = chop if name in GOOD else None
    data = b"".join(frames)
    for at in range(0, len(data), chop or len(data) or 1):
        client.sendall(data[at : at + (chop or len(data))])


def serve(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection, name, parts = WSConnection(ConnectionType.SERVER), "", []
    result = "none"
    try:
        while data := client.recv(1 << 16):
            connection.receive_data(data)
            for event in connection.events():
                if isinstance(event, Request):
                    client.sendall(connection.send(AcceptConnection(
                        subprotocol=(event.subprotocols or [None])[0],
                        extensions=[PerMessageDeflate()])))
                elif isinstance(event, (TextMessage, BytesMessage)):
                    parts.append(event.data)
                    if not event.message_finished:
                        continue
                    name, parts = parts[0][:0].join(parts), []
                    if isinstance(name, str) and name in ALL:
                        play(client, name)
                    else:
                        # A case of compression: the echo is compressed by wsproto.
                        client.sendall(connection.send(type(event)(data=name)))
                elif isinstance(event, Ping):
                    client.sendall(connection.send(event.response()))
                elif isinstance(event, Pong):
                    with lock, open(notes, "a") as file:
                        print("pong", name, event.payload.decode(), file=file)
                elif isinstance(event, CloseConnection):
                    result = event.code
                    if name not in ENDS:
                        client.sendall(connection.send(event.response()))
    except OSError:
        pass
    if isinstance(name, str) and (name in BAD or name in ENDS):
        with lock, open(notes, "a") as file:
            print("close", name, result, file=file)
    client.close()


for group, cases in (("good", GOOD), ("bad", BAD), ("ends", ENDS)):
    with open(f"{notes}.{group}", "w") as file:
        for name, (_, code) in cases.items():
            print(name, code, file=file)


def listen(port):
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=100)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


threads = [threading.Thread(target=listen, args=(port,)) for port in ports]
for thread in threads:
    thread.start()
