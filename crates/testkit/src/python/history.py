"""Appends to a history in the format of testkit's Recorder, on the same clock."""

import os
import time


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class History:
    """The attempts of this process at one lock."""

    def __init__(self, path, name):
        self.file = open(path, "ab", buffering=0)
        self.name = name

    def invoked(self, attempt, mode):
        self.note(attempt, f"invoked {mode}")

    def acquired(self, attempt, token, until):
        self.note(attempt, f"acquired token={token} until={until:.9f}")

    def note(self, attempt, what):
        line = f"\n{now():.9f} {os.getpid()}.1 #{attempt} {self.name} {what} ."
        self.file.write(line.encode())
