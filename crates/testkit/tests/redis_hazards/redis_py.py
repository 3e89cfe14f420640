"""A client of redis-py's Lock that does what it is told: one order per line in, one answer per line out.

redis_py.py PORT NAME TIMEOUT: everything that is not given is redis-py's default, a sleep of 0.1 s above all.

acquire              tries: "held" or "busy"
wait SECONDS         acquires for so long at most: the same
release, reacquire   "ok", or the name of what was raised
extend SECONDS       the same
owned                "True" or "False"
turns COUNTER HISTORY UNTIL HOLD PAUSE
                     takes turns until COUNTER has reached UNTIL; how many it took. A turn adds 1 to the number in the file
                     COUNTER, unprotected but for the lock, and is written down in the file HISTORY. It takes HOLD seconds,
                     and is followed by a pause of PAUSE seconds.
"""

import sys
import time

import redis
from history import History, now
from redis.exceptions import LockError
from redis.lock import Lock


class TimedLock(Lock):
    """Knows when its last request to acquire was sent: its lease counts from there."""

    def do_acquire(self, token):
        self.sent = now()
        return super().do_acquire(token)


def take_turns(lock, counter, history, until, hold, pause):
    history, attempt, turns = History(history, lock.name), 0, 0
    while True:
        attempt += 1
        history.invoked(attempt, "exclusive")
        lock.acquire()
        history.acquired(attempt, "none", lock.sent + lock.timeout)
        with open(counter) as file:
            count = int(file.read())
        is_over = count >= int(until)
        if not is_over:
            time.sleep(float(hold))
            with open(counter, "w") as file:
                file.write(str(count + 1))
            turns += 1
        history.note(attempt, "release")
        lock.release()
        history.note(attempt, "released")
        if is_over:
            return turns
        time.sleep(float(pause))


def follow(lock, order, *words):
    if order == "acquire":
        return "held" if lock.acquire(blocking=False) else "busy"
    if order == "wait":
        return "held" if lock.acquire(blocking_timeout=float(words[0])) else "busy"
    if order == "owned":
        return lock.owned()
    if order == "turns":
        return take_turns(lock, *words)
    try:
        if order == "extend":
            lock.extend(float(words[0]))
        else:
            {"release": lock.release, "reacquire": lock.reacquire}[order]()
        return "ok"
    except LockError as error:
        return type(error).__name__


def main():
    _, port, name, timeout = sys.argv
    client = redis.Redis(host="127.0.0.1", port=int(port))
    lock = client.lock(name, timeout=float(timeout), lock_class=TimedLock)
    for line in sys.stdin:
        print(follow(lock, *line.split()), flush=True)


main()
