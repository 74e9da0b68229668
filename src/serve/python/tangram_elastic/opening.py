"""What a script does before it joins its job: there rank 0 is the trainer that was started first, and barriers wait for it.

`if rank == 0: download()` and a barrier is the usual case. The first trainer holds a lock while it is before its training
loop, and notes each barrier that it has passed in the folder of the job; the others wait for the note, or until the lock
is free: the first trainer has joined, or is gone.
"""

import fcntl
import os
import time

_LOOK_EVERY_S = 0.02


class Opening:
    def __init__(self, folder, first):
        self._folder, self._first = folder, first
        self._passed = 0
        self._lock = os.open(os.path.join(folder, "opening.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if first:
            for name in os.listdir(folder):  # Of a first trainer of an earlier run.
                if name.startswith("barrier."):
                    os.unlink(os.path.join(folder, name))
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _note(self):
        return os.path.join(self._folder, "barrier.%d" % self._passed)

    def barrier(self):
        self._passed += 1
        if self._first:
            os.close(os.open(self._note(), os.O_WRONLY | os.O_CREAT, 0o600))
            return
        while not os.path.exists(self._note()):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_LOOK_EVERY_S)
                continue
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            return

    def end(self):
        os.close(self._lock)
