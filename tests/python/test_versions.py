"""field case K17-03: library and daemon of other versions refuse each other by name."""

import re
import socket
import struct
import threading

import cenote
import pytest

HELLO, WELCOME, ERROR = 1, 2, 4


def message(kind, body):
    return struct.pack("<HHI", kind, 0, len(body)) + body


def own_version(node):
    """The version that this library's HELLO has, as a listener in the daemon's place sees it."""
    (node.directory / "probe.sock").unlink(missing_ok=True)
    return listen(node.directory / "probe.sock", lambda version: None)[0]


def listen(path, welcome):
    """(what the library said, what connect() raised) when `welcome(version)` is the answer."""
    said = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(path))
        server.listen()

        def serve():
            with server.accept()[0] as peer:
                hello = peer.recv(4096)
                assert struct.unpack_from("<H", hello)[0] == HELLO
                said.append(struct.unpack_from("<I", hello, 8)[0])
                answer = welcome(said[0])
                if answer is not None:
                    peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(cenote.CenoteError) as caught:
            cenote.connect(path, timeout=0.5)
        thread.join()
    return said[0], caught.value


@pytest.mark.parametrize("step", [-1, 1])
def test_k17_03_a_daemon_of_another_version(node, tmp_path, step):
    """It welcomes us all the same, as one would that does not check."""
    def welcome(version):
        return message(WELCOME, struct.pack("<IIII16s16sQQQQQ", (version + step) % 2**32, 1, 1,
                                            65536, b"", b"", 1, 1 << 20, 4096, 4096, 4096))

    version, error = listen(tmp_path / "other.sock", welcome)
    assert isinstance(error, cenote.VersionError)
    numbers = re.findall(r"\d+", str(error))
    assert str(version) in numbers and str((version + step) % 2**32) in numbers


@pytest.mark.parametrize("step", [-1, 1])
def test_k17_03_a_library_of_another_version(node, step):
    version = own_version(node)
    other = (version + step) % 2**32
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.settimeout(60)
        peer.connect(node.socket)
        peer.sendall(message(HELLO, struct.pack("<II16s", other, 0, b"")))
        answer = peer.recv(4096)
    kind, _, size = struct.unpack_from("<HHI", answer)
    assert kind == ERROR and size == len(answer) - 8
    code, length = struct.unpack_from("<iH", answer, 8)
    numbers = re.findall(r"\d+", answer[14:14 + length].decode())
    assert code == -300 and str(version) in numbers and str(other) in numbers


def test_an_error_of_the_daemon_has_its_text(tmp_path):
    text = b"this daemon speaks version 9, the client 1"
    _, error = listen(tmp_path / "old.sock", lambda version: message(
        ERROR, struct.pack("<iH", -300, len(text)) + text))
    assert isinstance(error, cenote.VersionError) and text.decode() in str(error)
