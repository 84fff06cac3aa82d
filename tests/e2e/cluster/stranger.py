"""A peer made by hand: whatever a stranger, or a node that is broken, would send.

    with Tls(t, host, port, key=cluster.key.read_bytes()) as peer:
        peer.send(greeting() + frame(0, hello()))
        expect(welcome(peer), "it was not greeted")
        channel, number, body = answer(peer)

TLS is `openssl s_client`, since Python's own has no keys that both ends share.
"""

import hmac
import selectors
import socket
import struct
import subprocess
import time

from .case import DEADLINE_S, expect
from .programs import ROOT, Process

VERSION = int((ROOT / "src/wire/msg.h").read_text().split("#define WIRE_VERSION ")[1].split("u")[0])
NUMBERS = {}
for line in (ROOT / "src/wire/msg.def").read_text().splitlines():
    if line.startswith("MSG("):
        number, name = line[4:].split(",")[:2]
        NUMBERS[name.strip()] = int(number)


def derived(key):
    """What the handshake uses of a key file: HKDF-SHA256, as in src/io/tls.c."""
    secret = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(secret, b"cenote node key\x01", "sha256")


# ---- messages (wire/msg.h) ---------------------------------------------------


def text(words):
    data = words.encode() if isinstance(words, str) else words
    return struct.pack("<H", len(data)) + data


def message(kind, body=b""):
    number = NUMBERS[kind] if isinstance(kind, str) else kind
    return struct.pack("<HHI", number, 0, len(body)) + body


def hello(cluster="cenote", node=0x57a4, version=VERSION, endpoint="127.0.0.1:1"):
    return message("PEER_HELLO", struct.pack("<IQQQ", version, node, 1, 1) + text(cluster) + text(endpoint))


def beat():
    return message("BEAT", struct.pack("<QQ", 0, 1))


def error_of(body):
    """(code, words) of an ERROR."""
    code, size = struct.unpack("<iH", body[:6])
    return code, body[6:6 + size].decode(errors="replace")


# ---- connections -------------------------------------------------------------


class Plain:
    """TCP without anything; `source`: the address that it comes from."""

    def __init__(self, host, port, source=""):
        self.socket = socket.create_connection((host, port), timeout=DEADLINE_S, source_address=(source, 0))
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has had enough already, which hear_end() tells

    def shut(self):
        """Nothing more is sent; over TLS that ends the connection."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def more(self, seconds):
        """What comes next; None: it is closed."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1 << 16) or None
        except (ConnectionResetError, BrokenPipeError):
            return None
        except socket.timeout:
            return b""

    def hear_end(self, seconds=DEADLINE_S):
        """All that came until it was closed."""
        end, data = time.monotonic() + seconds, self.rest
        while True:
            more = self.more(max(end - time.monotonic(), 0.01))
            if more is None:
                return data
            data += more
            expect(time.monotonic() < end, f"it was not closed within {seconds} s, and said {data[:100]!r}")

    def read(self, size, seconds=DEADLINE_S):
        """So many bytes."""
        end = time.monotonic() + seconds
        while len(self.rest) < size:
            more = self.more(max(end - time.monotonic(), 0.01))
            expect(more is not None, f"it was closed after {self.rest[:100]!r}")
            self.rest += more
            expect(time.monotonic() < end or len(self.rest) >= size, f"no answer within {seconds} s")
        data, self.rest = self.rest[:size], self.rest[size:]
        return data


class Tls(Plain):
    """TLS by openssl; `key`: the one that both ends have; `options`: of s_client."""

    def __init__(self, t, host, port, *options, key=None, source=None):
        if source:
            options += ("-bind", f"{source}:0")
        argv = ["openssl", "s_client", "-connect", f"{host}:{port}", "-quiet", "-no_ign_eof", "-nocommands", *options]
        if key is not None:
            argv += ["-tls1_3", "-psk", derived(key).hex(), "-psk_identity", "cenote", "-ciphersuites",
                     "TLS_AES_128_GCM_SHA256"]
        self.log = t.directory / "openssl"
        with open(self.log, "ab") as errors:
            self.process = Process(t, "openssl", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.rest = b""

    def __exit__(self, *_):
        self.process.end()

    def send(self, data):
        try:
            self.process.popen.stdin.write(data)
            self.process.popen.stdin.flush()
        except BrokenPipeError:
            pass

    def shut(self):
        try:
            self.process.popen.stdin.close()
        except BrokenPipeError:
            pass  # what send() could not flush is in the way once more

    def more(self, seconds):
        pipe = self.process.popen.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            if not selector.select(seconds):
                return b""
        return pipe.read1(1 << 16) or None


# ---- frames (net/frame.h) ----------------------------------------------------

CONTROL, DATA = 1, 2
MAGIC = b"Ceno"


def greeting(kind=CONTROL, version=1):
    return MAGIC + struct.pack("<HBB", version, kind, 0)


def welcome(peer):
    """True: the greeting was answered by one that says so."""
    magic, _, _, verdict = struct.unpack("<4sHBB", peer.read(8))
    expect(magic == MAGIC, f"no node greets with {magic!r}")
    return verdict == 0


def frame(channel, data):
    return struct.pack("<II", len(data), channel) + data


def answer(peer):
    """(channel, number of the message, body) of the next frame."""
    size, channel = struct.unpack("<II", peer.read(8))
    expect(8 <= size < 1 << 20, f"no frame has {size} bytes")
    data = peer.read(size)
    number, _, length = struct.unpack("<HHI", data[:8])
    expect(length == len(data) - 8, "the message has another length than its frame")
    return channel, number, data[8:]
