"""A TCP proxy on loopback that spoils what goes through it, by a seeded plan: delays, cuts in the middle of a message,
damages bytes, or goes deaf (keeps both connections open and forwards nothing more).
"""

import random
import socket
import threading
import time


class Proxy:
    """Forwards to `target` (HOST:PORT) from `address`. `mode` may be changed while it runs and holds for what comes next.

    Modes: "clean", "delay" (each piece waits up to `delay` seconds), "cut" (a connection is reset after a random number of
    bytes up to `reach`), "damage" (a random byte within `reach` gets another value, once per connection and direction),
    "deaf" (nothing is forwarded, nothing is closed; connections are accepted). `spoiled` counts what was done.
    """

    def __init__(self, target, seed=1, reach=60_000, delay=0.03):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.chance = random.Random(seed)
        self.reach = reach
        self.delay = delay
        self.mode = "clean"
        self.spoiled = 0
        self.connections = 0
        self.closing = False
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.closing = True
        self.listener.close()
        self.cut_all()

    def cut_all(self):
        for pair in list(self.pairs):
            self._reset(pair)

    def _accept(self):
        while not self.closing:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, timeout=2)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            self.connections += 1
            pair = (near, far)
            self.pairs.append(pair)
            for source, sink in (pair, pair[::-1]):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(pair, source, sink), daemon=True).start()

    def _reset(self, pair):
        for end in pair:
            try:  # wakes a thread that is in recv; close alone does not
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
        if pair in self.pairs:
            self.pairs.remove(pair)

    def _pump(self, pair, source, sink):
        passed = 0
        where = self.chance.randrange(self.reach)
        damaged = False
        try:
            while True:
                piece = source.recv(16384)
                if not piece:
                    break
                while self.mode == "deaf" and not self.closing:
                    time.sleep(0.02)
                if self.mode == "delay":
                    time.sleep(self.chance.random() * self.delay)
                    self.spoiled += 1
                if self.mode in ("cut", "damage") and passed + len(piece) > where and not damaged:
                    at = max(0, where - passed)
                    if self.mode == "cut":
                        sink.sendall(piece[:at])
                        self.spoiled += 1
                        break
                    piece = bytearray(piece)
                    piece[at] ^= self.chance.randrange(1, 256)
                    damaged = True
                    self.spoiled += 1
                sink.sendall(piece)
                passed += len(piece)
        except OSError:
            pass
        self._reset(pair)
