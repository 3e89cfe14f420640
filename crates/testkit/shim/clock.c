/* Preloaded clocks that a test can move while the process runs.
 *
 * The file named by TESTKIT_CLOCKS contains two int64 in nanoseconds: what is added to CLOCK_REALTIME, and what is added
 * to CLOCK_BOOTTIME. CLOCK_MONOTONIC stays as it is, as on a machine that slept. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, BOOT };

static const volatile int64_t *offsets;

__attribute__((constructor)) static void map_offsets(void) {
    const char *path = getenv("TESTKIT_CLOCKS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *map = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    offsets = map == MAP_FAILED ? NULL : map;
}

static void move(struct timespec *moment, int which) {
    const int64_t second = 1000000000;
    if (!offsets) {
        return;
    }
    int64_t nanos = moment->tv_sec * second + moment->tv_nsec + offsets[which];
    moment->tv_sec = nanos / second;
    moment->tv_nsec = nanos % second;
}

int clock_gettime(clockid_t clock, struct timespec *moment) {
    int failed = syscall(SYS_clock_gettime, clock, moment);
    if (failed) {
        return failed;
    }
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        move(moment, WALL);
        break;
    case CLOCK_BOOTTIME:
        move(moment, BOOT);
        break;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict moment, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) {
        return -1;
    }
    moment->tv_sec = now.tv_sec;
    moment->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) {
        return -1;
    }
    if (seconds) {
        *seconds = now.tv_sec;
    }
    return now.tv_sec;
}
