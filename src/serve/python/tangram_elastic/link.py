"""The connection to the coordinator: one JSON object a line, over a Unix socket."""

import ctypes
import json
import os
import signal
import socket
import threading
import time

_ALIVE_EVERY_S = 0.25
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _die_with_parent():
    """For helper processes of a DataLoader: they hold the connections of the trainer open, so its death would be noticed
    only when they end."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_connected = None


def connect(path, trainer):
    """The socket to the coordinator; the one that was connected before, if one was."""
    global _connected
    if _connected is None:
        _connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _connected.connect(path)
        _connected.sendall((json.dumps({"trainer": trainer, "pid": os.getpid()}) + "\n").encode())
    return _connected


class Link:
    """Calls `on_message` with each message, on a thread of its own. Without the coordinator the process ends: nobody
    else would ever take its slice back. `on_lost` is called first, and may take a few seconds to save the state."""

    def __init__(self, path, trainer, on_message, on_lost):
        self._socket = connect(path, trainer)
        self._lock = threading.Lock()
        self._on_message = on_message
        self._on_lost = on_lost
        self.waits = True
        os.register_at_fork(after_in_child=_die_with_parent)

    def start(self):
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._say_alive, daemon=True).start()

    def send(self, **message):
        line = (json.dumps(message) + "\n").encode()
        try:
            with self._lock:
                self._socket.sendall(line)
        except OSError:
            pass  # The reading thread sees it, too, and ends the process.

    def _read(self):
        try:
            for line in self._socket.makefile("r", encoding="utf-8"):
                self._on_message(json.loads(line))
        except (OSError, ValueError):
            pass
        self._on_lost()
        os._exit(3)

    def _say_alive(self):
        while True:
            time.sleep(_ALIVE_EVERY_S)
            self.send(alive=True, waits=self.waits)
