"""Locks with kazoo as it is told: one order per line in; answers out, one per line, when there is something to tell.

kazoo_row.py HOSTS PATH NAME HISTORY: the lock's path and, for the file HISTORY, its name.

try KIND             "got it" (and lets go again) or "busy"
join NUMBER KIND     stands in line, and says "held NUMBER CZXID" when its turn has come
leave NUMBER         lets go, and says "left NUMBER"

KIND is lock, read or write; or plain: a Lock that was told nothing of other clients' nodes.
"""

import sys
import threading

from history import History, now
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

# What docs/engines/zookeeper.md tells people to write.
KINDS = {
    "plain": (Lock, "exclusive", []),
    "lock": (Lock, "exclusive", ["-lock-"]),
    "write": (WriteLock, "write", ["-__READ__", "-__WRIT__"]),
    "read": (ReadLock, "read", ["-__WRIT__"]),
}
# Theirs end with their session, and this process lives for as long as the test.
NEVER = 1_000_000_000


class Row:
    """Those who hold or wait, each in a thread of its own."""

    def __init__(self, client, path, history):
        self.client, self.path, self.history = client, path, history
        self.locks, self.voice = {}, threading.Lock()

    def say(self, *words):
        with self.voice:
            print(*words, flush=True)

    def lock(self, kind):
        make, mode, patterns = KINDS[kind]
        return make(self.client, self.path, extra_lock_patterns=patterns), mode

    def try_(self, kind):
        lock, _ = self.lock(kind)
        if not lock.acquire(blocking=False):
            return self.say("busy")
        lock.release()
        self.say("got it")

    def join(self, number, kind):
        lock, mode = self.lock(kind)
        self.locks[number] = lock
        self.history.invoked(number, mode)
        threading.Thread(target=self.wait, args=(number, lock), daemon=True).start()

    def wait(self, number, lock):
        lock.acquire()
        self.history.acquired(number, "none", now() + NEVER)
        czxid = self.client.exists(f"{self.path}/{lock.node}").czxid
        self.say("held", number, czxid)

    def leave(self, number):
        self.history.note(number, "release")
        self.locks.pop(number).release()
        self.history.note(number, "released")
        self.say("left", number)


def main():
    _, hosts, path, name, history = sys.argv
    client = KazooClient(hosts=hosts, timeout=20.0)
    client.start()
    row = Row(client, path, History(history, name))
    row.say("ready")
    for line in sys.stdin:
        order, *words = line.split()
        {"try": row.try_, "join": row.join, "leave": row.leave}[order](*words)


main()
