"""A process that locks with redis-py: one command per line in, one answer per line out.

redis_py.py PORT NAME TIMEOUT: every other setting is redis-py's default, such as a sleep of 0.1 s.

acquire              tries: "held" or "busy"
wait SECONDS         waits at most this long: "held" or "busy"
release, reacquire   "ok", or the name of the exception
extend SECONDS       "ok", or the name of the exception
owned                "True" or "False"
turns COUNTER HISTORY UNTIL HOLD PAUSE
                     takes turns until COUNTER has reached UNTIL; answers with their number. A turn adds 1 to the number in
                     the file COUNTER, protected by nothing but the lock, and is recorded in the file HISTORY. It takes HOLD
                     seconds, and is followed by a pause of PAUSE seconds.
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


def execute(lock, command, *words):
    if command == "acquire":
        return "held" if lock.acquire(blocking=False) else "busy"
    if command == "wait":
        return "held" if lock.acquire(blocking_timeout=float(words[0])) else "busy"
    if command == "owned":
        return lock.owned()
    if command == "turns":
        return take_turns(lock, *words)
    try:
        if command == "extend":
            lock.extend(float(words[0]))
        else:
            {"release": lock.release, "reacquire": lock.reacquire}[command]()
        return "ok"
    except LockError as error:
        return type(error).__name__


def main():
    _, port, name, timeout = sys.argv
    client = redis.Redis(host="127.0.0.1", port=int(port))
    lock = client.lock(name, timeout=float(timeout), lock_class=TimedLock)
    for line in sys.stdin:
        print(execute(lock, *line.split()), flush=True)


main()
