/* A preloaded sync() that forks, and returns in both processes: the way to a real fork() for code that is all safe Rust.
 * The caller sees by its process id in which of the two it is. */
#include <unistd.h>

void sync(void) {
    /* A failure shows when the parent waits for the child. */
    (void)!fork();
}
