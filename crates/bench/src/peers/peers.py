# Takes turns with a lock of python-redis-lock or redis-py, and writes them home as the children of the bench do.
import struct
import sys
import threading
import time

import redis

side, url, name = sys.argv[1:4]
tasks, millis = int(sys.argv[4]), int(sys.argv[5])
hold, pause = float(sys.argv[6]), float(sys.argv[7])


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def lock(client, key):
    if side == "py-redis":
        return client.lock(key, timeout=30)
    import redis_lock

    return redis_lock.Lock(client, key, expire=30)


def take_turns(task, lock, start, turns):
    asked = 0
    while True:
        lock.acquire()
        acquired = released = now() - start
        if hold:
            time.sleep(hold)
            released = now() - start
        lock.release()
        turns.append((task, asked, acquired, released))
        if acquired >= millis * 1_000_000:
            return
        if pause:
            time.sleep(pause)
        asked = now() - start


client = redis.Redis.from_url(url)
warm = lock(client, "bench/warm/" + str(now()))
warm.acquire()
warm.release()
locks = [lock(client, name) for _ in range(tasks)]
sys.stdout.buffer.write(b"!")
sys.stdout.buffer.flush()
start = int(sys.stdin.readline()) * 1_000
time.sleep(max(0, (start - now()) / 1e9))
turns = [[] for _ in locks]
threads = [threading.Thread(target=take_turns, args=(i, locks[i], start, turns[i])) for i in range(tasks)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
home = sys.stdout.buffer
home.write(struct.pack("=QQ", 0, 0))
for turn in (turn for part in turns for turn in part):
    home.write(struct.pack("=QQQQ", *turn))
home.flush()
