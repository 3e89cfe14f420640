/* A preloaded allocator that counts. The file named by TESTKIT_HEAP contains an int64: the number of bytes that
 * were allocated and not freed. glibc's own functions do the work. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static _Atomic int64_t before_map;
static _Atomic int64_t *living = &before_map;

__attribute__((constructor)) static void map_count(void) {
    const char *path = getenv("TESTKIT_HEAP");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) {
        living = map;
    }
}

static void *counted(void *memory) {
    if (memory) {
        atomic_fetch_add_explicit(living, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
    }
    return memory;
}

static void gone(void *memory) {
    if (memory) {
        atomic_fetch_sub_explicit(living, (int64_t)malloc_usable_size(memory), memory_order_relaxed);
    }
}

void *malloc(size_t size) { return counted(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }

void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
    void *made = memalign(alignment, size);
    if (!made) {
        return ENOMEM;
    }
    *memory = made;
    return 0;
}

void *realloc(void *memory, size_t size) {
    int64_t before = memory ? (int64_t)malloc_usable_size(memory) : 0;
    void *moved = __libc_realloc(memory, size);
    if (moved || size == 0) {
        atomic_fetch_sub_explicit(living, before, memory_order_relaxed);
    }
    return counted(moved);
}

void free(void *memory) {
    gone(memory);
    __libc_free(memory);
}
