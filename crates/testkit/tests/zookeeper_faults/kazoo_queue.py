"""A process that locks with kazoo: one command per line in; events out, one per line.

kazoo_queue.py HOSTS PATH NAME HISTORY: the lock's path and, for the file HISTORY, its name.

try KIND             "got it" (and releases it again) or "busy"
join NUMBER KIND     queues, and prints "held NUMBER CZXID" when its turn has come
leave NUMBER         releases, and prints "left NUMBER"

KIND is lock, read or write; or plain: a Lock without patterns for other clients' nodes.
"""

import sys
import threading

from history import History, now
from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

# The patterns from docs/engines/zookeeper.md.
KINDS = {
    "plain": (Lock, "exclusive", []),
    "lock": (Lock, "exclusive", ["-lock-"]),
    "write": (WriteLock, "write", ["-__READ__", "-__WRIT__"]),
    "read": (ReadLock, "read", ["-__WRIT__"]),
}
# kazoo's locks end with their session, and this process lives for as long as the test.
NEVER = 1_000_000_000


class Queue:
    """The holders and waiters, each in a thread of its own."""

    def __init__(self, client, path, history):
        self.client, self.path, self.history = client, path, history
        self.locks, self.output = {}, threading.Lock()

    def say(self, *words):
        with self.output:
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
    queue = Queue(client, path, History(history, name))
    queue.say("ready")
    for line in sys.stdin:
        command, *words = line.split()
        {"try": queue.try_, "join": queue.join, "leave": queue.leave}[command](*words)


main()
