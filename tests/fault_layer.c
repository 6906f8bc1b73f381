/* A layer between a process and its system calls, loaded with LD_PRELOAD: the n-th call of a kind fails, as EIO or whatever
 * is asked for. Only calls of the C library are seen, which are all of a Python process without the native library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

enum { FSYNC, WRITE, PREAD, READ, RENAME, UNLINK, KINDS };

static atomic_long seen[KINDS];
static atomic_long first[KINDS], last[KINDS];
static atomic_int error_number;

/* Let calls number from .. to of a kind fail, counted from 1 as of now; from 0 lets all pass. */
void fault_arm(int kind, long from, long to, int number) {
    for (int k = 0; k < KINDS; k++) {
        first[k] = 0;
        seen[k] = 0;
    }
    error_number = number;
    last[kind] = to;
    first[kind] = from;
}

/* How many calls of a kind there were since. */
long fault_seen(int kind) { return seen[kind]; }

static int fails(int kind) {
    long n = atomic_fetch_add(&seen[kind], 1) + 1;
    if (first[kind] == 0 || n < first[kind] || n > last[kind])
        return 0;
    errno = error_number;
    return 1;
}

#define NEXT(type, name) \
    static type (*next)(); \
    if (!next) \
        next = (type(*)())dlsym(RTLD_NEXT, name)

int fsync(int fd) {
    NEXT(int, "fsync");
    return fails(FSYNC) ? -1 : next(fd);
}

ssize_t write(int fd, const void *data, size_t n) {
    NEXT(ssize_t, "write");
    return fd > 2 && fails(WRITE) ? -1 : next(fd, data, n);
}

ssize_t read(int fd, void *data, size_t n) {
    NEXT(ssize_t, "read");
    return fails(READ) ? -1 : next(fd, data, n);
}

ssize_t pread64(int fd, void *data, size_t n, off64_t offset) {
    NEXT(ssize_t, "pread64");
    return fails(PREAD) ? -1 : next(fd, data, n, offset);
}

int rename(const char *from, const char *to) {
    NEXT(int, "rename");
    return fails(RENAME) ? -1 : next(from, to);
}

int unlink(const char *path) {
    NEXT(int, "unlink");
    return fails(UNLINK) ? -1 : next(path);
}
