/* Calls every function of ulpack.h the way a hostile or careless C program would.
 *
 * Usage: test_abi LIBRARY. Prints one line a test and exits with 0, or stops at the first failed check.
 *
 * Every buffer lies against an inaccessible page, so that one byte too far is a fault, with a canary before it; what the
 * library may only read is write-protected. Every call runs in an unusual floating-point mode and must hand it back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ulpack.h"

#if defined(__linux__) && defined(__x86_64__)
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#endif

_Static_assert(sizeof(ulp_error) == 512, "ulp_error");
_Static_assert(sizeof(ulp_bytes) == 16, "ulp_bytes");
_Static_assert(sizeof(ulp_tensor) == 128, "ulp_tensor");
_Static_assert(sizeof(ulp_options) == 64, "ulp_options");
_Static_assert(sizeof(ulp_stream) == 32, "ulp_stream");
_Static_assert(sizeof(ulp_saved) == 32, "ulp_saved");
_Static_assert(sizeof(ulp_item) == 96, "ulp_item");

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "%s:%d: %s failed; last error: %s\n", __FILE__, __LINE__, #condition, E.message); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* ---- The library ------------------------------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                                             \
    X(ulp_abi_version) X(ulp_forked) X(ulp_strerror) X(ulp_info) X(ulp_save_bound) X(ulp_save) X(ulp_index) \
    X(ulp_load) X(ulp_fingerprint) X(ulp_free_memory)

#define DECLARE(name) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)

static ulp_error E; /* of the last call */

static void open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
#define RESOLVE(name) CHECK((p_##name = (__typeof__(&name))dlsym(library, #name)) != NULL);
    FUNCTIONS(RESOLVE)
    const char *hidden[] = {"ulpGoSave", "crosscall2", "_cgo_panic", "_cgo_topofstack", "fatalf"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) CHECK(dlsym(library, hidden[i]) == NULL);
}

/* ---- The floating-point mode -------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
static uint64_t fp_get(void) { return __builtin_ia32_stmxcsr(); }
static void fp_set(uint64_t mode) { __builtin_ia32_ldmxcsr((unsigned)mode); }
#define FP_UNUSUAL 0xFFC0u /* flush to zero, denormals are zero, round toward zero, no sticky flags */
#elif defined(__aarch64__)
static uint64_t fp_get(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static void fp_set(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#define FP_UNUSUAL 0x1C00000u /* flush to zero, round toward zero */
#else
static uint64_t fp_get(void) { return 0; }
static void fp_set(uint64_t mode) { (void)mode; }
#define FP_UNUSUAL 0u
#endif

/* The code of a call that must leave the floating-point mode as it was. */
#define CALL(...)                          \
    __extension__({                        \
        const uint64_t mode = fp_get();    \
        const int32_t code_ = __VA_ARGS__; \
        CHECK(fp_get() == mode);           \
        code_;                             \
    })

/* ---- Guarded memory ----------------------------------------------------------------------------------------------- */

enum { CANARY = 64 };

typedef struct {
    uint8_t *data;
    size_t nbytes;
    uint8_t *map;
    size_t inside; /* bytes of the map before the inaccessible page */
} guarded;

static guarded guarded_new(size_t nbytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded g = {.nbytes = nbytes, .inside = (nbytes + CANARY + page - 1) / page * page};
    g.map = mmap(NULL, g.inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(g.map != MAP_FAILED);
    CHECK(mprotect(g.map + g.inside, page, PROT_NONE) == 0);
    memset(g.map, 0xA5, g.inside);
    g.data = g.map + g.inside - nbytes;
    return g;
}

static guarded guarded_copy(const void *from, size_t nbytes) {
    guarded g = guarded_new(nbytes);
    if (nbytes > 0) memcpy(g.data, from, nbytes);
    CHECK(mprotect(g.map, g.inside, PROT_READ) == 0);
    return g;
}

static int untouched(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0xA5) return 0;
    return 1;
}

static void guarded_check(guarded g) { CHECK(untouched(g.map, g.inside - g.nbytes)); }

static void guarded_free(guarded g) {
    guarded_check(g);
    munmap(g.map, g.inside + (size_t)sysconf(_SC_PAGESIZE));
}

/* ---- A batch of tensors: with and without reference, empty, 0-d, of a named dtype ---------------------------------- */

enum { BF16 = 1, F32 = 3, NAMED = 0, U8 = 16 };
enum { N = 6, NOISE = 1000 };

typedef struct {
    guarded values[N], refs[N], names, dims, tensors, structure, metadata;
} batch;

static uint64_t addr(const void *p) { return (uint64_t)(uintptr_t)p; }

static ulp_bytes bytes_of(guarded g) { return (ulp_bytes){addr(g.data), g.nbytes}; }

#define NAMES "weightnoiseemptyscalarodd.dtypemaskmy_dtypeold"

static batch batch_new(void) {
    static const struct {
        uint64_t name_off, name_len, dtype, itemsize, ndim, shape_off, elements;
        int ref;
    } plan[N] = {
        {0, 6, BF16, 2, 2, 0, 64 * 96, 1}, /* weight: a small step from its reference */
        {6, 5, F32, 4, 1, 2, NOISE, 0},
        {11, 5, BF16, 2, 3, 3, 0, 0},
        {16, 6, F32, 4, 0, 6, 1, 1},
        {22, 9, NAMED, 3, 1, 6, 50, 0},
        {31, 4, U8, 1, 2, 7, 12 * 20, 1},
    };
    static const uint64_t dims[] = {64, 96, NOISE, 4, 0, 7, 50, 12, 20};
    batch b;
    ulp_tensor t[N];
    uint64_t random = 1;
    memset(t, 0, sizeof t);
    for (int i = 0; i < N; i++) {
        const size_t nbytes = plan[i].elements * plan[i].itemsize;
        uint8_t value[64 * 96 * 2], ref[64 * 96 * 2];
        for (size_t k = 0; k < nbytes; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            value[k] = ref[k] = (uint8_t)(random >> 56);
            if (plan[i].ref && random >> 40 & 1 && k % 2 == 0) value[k] ^= 1;
        }
        b.values[i] = guarded_copy(value, nbytes);
        b.refs[i] = guarded_copy(ref, plan[i].ref ? nbytes : 0);
        t[i].data = nbytes ? addr(b.values[i].data) : 0;
        t[i].nbytes = nbytes;
        t[i].ref = plan[i].ref ? addr(b.refs[i].data) : 0;
        t[i].name_off = plan[i].name_off, t[i].name_len = plan[i].name_len;
        t[i].dtype = plan[i].dtype, t[i].itemsize = plan[i].itemsize;
        t[i].ndim = plan[i].ndim, t[i].shape_off = plan[i].shape_off;
    }
    t[4].dtype_off = 35, t[4].dtype_len = 8;
    t[5].ref_name_off = 43, t[5].ref_name_len = 3;
    b.names = guarded_copy(NAMES, strlen(NAMES));
    b.dims = guarded_copy(dims, sizeof dims);
    b.tensors = guarded_copy(t, sizeof t);
    b.structure = guarded_copy("", 0);
    b.metadata = guarded_copy("{\"step\": 7}", 11);
    return b;
}

static void batch_free(batch b) {
    for (int i = 0; i < N; i++) guarded_free(b.values[i]), guarded_free(b.refs[i]);
    guarded_free(b.names), guarded_free(b.dims), guarded_free(b.tensors);
    guarded_free(b.structure), guarded_free(b.metadata);
}

#define TENSORS(b) (const ulp_tensor *)(b).tensors.data
#define DIMS(b) (const uint64_t *)(b).dims.data, (b).dims.nbytes / 8
#define TEXTS(b) bytes_of((b).names), bytes_of((b).structure), bytes_of((b).metadata)

static ulp_stream memory_of(guarded g) { return (ulp_stream){-1, addr(g.data), g.nbytes, 0}; }
static ulp_stream file_of(int fd) { return (ulp_stream){fd, 0, 0, 0}; }

static int32_t save_to(const batch *b, ulp_stream out, const ulp_options *opt, ulp_saved *saved, uint64_t *written) {
    return CALL(p_ulp_save(&out, TENSORS(*b), N, DIMS(*b), TEXTS(*b), opt, saved, written, &E));
}

/* The file of a batch, in write-protected memory. */
static guarded file_new(const batch *b) {
    uint64_t bound, written;
    CHECK(CALL(p_ulp_save_bound(TENSORS(*b), N, DIMS(*b), TEXTS(*b), &bound, &E)) == ULP_OK);
    guarded space = guarded_new(bound);
    CHECK(save_to(b, memory_of(space), NULL, NULL, &written) == ULP_OK);
    CHECK(written > 0 && written <= bound);
    CHECK(untouched(space.data + written, bound - written));
    guarded file = guarded_copy(space.data, written);
    guarded_free(space);
    return file;
}

/* All tensors of a batch, with fresh outputs. */
static void items_new(const batch *b, ulp_item items[N], guarded outs[N]) {
    memset(items, 0, N * sizeof *items);
    for (int i = 0; i < N; i++) {
        outs[i] = guarded_new(b->values[i].nbytes);
        items[i].tensor = (uint64_t)i;
        items[i].ref = b->refs[i].nbytes ? addr(b->refs[i].data) : 0;
        items[i].ref_nbytes = b->refs[i].nbytes;
        items[i].out = outs[i].nbytes ? addr(outs[i].data) : 0;
        items[i].out_nbytes = outs[i].nbytes;
        items[i].count = UINT64_MAX;
    }
}

static void items_free(guarded outs[N]) {
    for (int i = 0; i < N; i++) guarded_free(outs[i]);
}

static int32_t load_from(ulp_stream in, ulp_item *items, uint64_t n, const ulp_options *opt) {
    return CALL(p_ulp_load(&in, items, n, opt, &E));
}

static int same(guarded a, guarded b) { return a.nbytes == b.nbytes && memcmp(a.data, b.data, a.nbytes) == 0; }

/* Load everything and compare. */
static void check_file(const batch *b, ulp_stream in) {
    ulp_item items[N];
    guarded outs[N];
    items_new(b, items, outs);
    CHECK(load_from(in, items, N, NULL) == ULP_OK);
    for (int i = 0; i < N; i++) CHECK(items[i].status == ULP_OK && same(outs[i], b->values[i]));
    items_free(outs);
}

static int32_t index_of(ulp_stream in, guarded *json) {
    uint64_t needed = 0;
    int32_t code = CALL(p_ulp_index(&in, NULL, 0, &needed, &E));
    if (code != ULP_E_SPACE) return code;
    *json = guarded_new(needed);
    return CALL(p_ulp_index(&in, (char *)json->data, needed, &needed, &E));
}

static int is_damage(int32_t code) {
    return code == ULP_E_CORRUPT || code == ULP_E_TRUNCATED || code == ULP_E_UNSUPPORTED || code == ULP_E_LIMIT ||
           code == ULP_E_REFERENCE;
}

/* ---- Tests --------------------------------------------------------------------------------------------------------- */

static void test_texts(void) {
    static const int32_t codes[] = {ULP_OK, ULP_E_ARGUMENT, ULP_E_CORRUPT, ULP_E_TRUNCATED, ULP_E_REFERENCE,
                                    ULP_E_UNSUPPORTED, ULP_E_IO, ULP_E_SPACE, ULP_E_CANCELLED, ULP_E_FORKED,
                                    ULP_E_LIMIT, ULP_E_INTERNAL, 12345};
    const size_t n = sizeof codes / sizeof *codes;
    CHECK(CALL(p_ulp_abi_version()) == ULP_ABI_VERSION);
    CHECK(CALL(p_ulp_forked()) == 0);
    for (size_t i = 0; i < n; i++) {
        CHECK(p_ulp_strerror(codes[i])[0] != '\0');
        for (size_t k = 0; k < i; k++) CHECK(strcmp(p_ulp_strerror(codes[i]), p_ulp_strerror(codes[k])) != 0);
    }
}

static void test_info(void) {
    uint64_t needed = 0;
    CHECK(CALL(p_ulp_info(NULL, 0, &needed, &E)) == ULP_E_SPACE);
    CHECK(needed > 2 && E.message[0] != '\0' && E.tensor == -1 && E.offset == -1);
    guarded json = guarded_new(needed);
    CHECK(CALL(p_ulp_info((char *)json.data, needed - 1, &needed, &E)) == ULP_E_SPACE);
    CHECK(untouched(json.data, json.nbytes));
    CHECK(CALL(p_ulp_info((char *)json.data, needed, &needed, &E)) == ULP_OK);
    CHECK(needed == json.nbytes && json.data[0] == '{' && json.data[needed - 1] == '}');
    CHECK(E.message[0] == '\0' && E.tensor == -1 && E.offset == -1);
    guarded_free(json);
}

static void test_round_trip(void) {
    batch b = batch_new();
    guarded file = file_new(&b), json;
    check_file(&b, memory_of(file));
    CHECK(index_of(memory_of(file), &json) == ULP_OK);
    CHECK(json.nbytes > 2 && json.data[0] == '{' && json.data[json.nbytes - 1] == '}');
    guarded_free(json);

    /* The same bytes whatever the threads, and a record a tensor. */
    int32_t cancel = 0;
    uint64_t progress = 0, written = 0, raw = 0, blobs = 0;
    ulp_options opt = {.threads = 2, .cancel = addr(&cancel), .progress = addr(&progress)};
    guarded out = guarded_new(file.nbytes), saved = guarded_new(N * sizeof(ulp_saved));
    CHECK(save_to(&b, memory_of(out), &opt, (ulp_saved *)saved.data, &written) == ULP_OK);
    CHECK(written == file.nbytes && same(out, file));
    for (int i = 0; i < N; i++) raw += b.values[i].nbytes, blobs += ((ulp_saved *)saved.data)[i].nbytes;
    CHECK(progress == raw);
    CHECK(blobs > 0 && blobs < written);

    /* Fingerprints: of the value, as saved, as loaded. */
    ulp_item items[N];
    guarded outs[N];
    items_new(&b, items, outs);
    progress = 0;
    CHECK(load_from(memory_of(file), items, N, &opt) == ULP_OK);
    CHECK(progress == raw);
    for (int i = 0; i < N; i++) {
        uint64_t fingerprint = 0;
        CHECK(CALL(p_ulp_fingerprint(TENSORS(b) + i, DIMS(b), bytes_of(b.names), &fingerprint, &E)) == ULP_OK);
        CHECK(fingerprint == items[i].fingerprint && fingerprint == ((ulp_saved *)saved.data)[i].fingerprint);
        for (int k = 0; k < i; k++) CHECK(fingerprint != items[k].fingerprint);
    }
    items_free(outs);
    guarded_free(saved), guarded_free(out), guarded_free(file), batch_free(b);
}

static void test_empty_batch(void) {
    const ulp_bytes nothing = {0, 0};
    uint64_t bound = 0, written = 0;
    CHECK(CALL(p_ulp_save_bound(NULL, 0, NULL, 0, nothing, nothing, nothing, &bound, &E)) == ULP_OK);
    guarded space = guarded_new(bound), json;
    ulp_stream stream = memory_of(space);
    CHECK(CALL(p_ulp_save(&stream, NULL, 0, NULL, 0, nothing, nothing, nothing, NULL, NULL, &written, &E)) == ULP_OK);
    stream.nbytes = written;
    CHECK(load_from(stream, NULL, 0, NULL) == ULP_OK);
    CHECK(index_of(stream, &json) == ULP_OK);
    guarded_free(json), guarded_free(space);
}

static void test_ranges_and_in_place(void) {
    batch b = batch_new();
    guarded file = file_new(&b);
    /* Elements 100..299 of a 2-byte dtype, 10..19 of a 4-byte one. */
    guarded first = guarded_new(200 * 2), second = guarded_new(10 * 4);
    ulp_item items[2] = {
        {.tensor = 1, .out = addr(second.data), .out_nbytes = 40, .first = 10, .count = 10},
        {.tensor = 0, .ref = addr(b.refs[0].data), .ref_nbytes = b.refs[0].nbytes, .out = addr(first.data),
         .out_nbytes = 400, .first = 100, .count = 200},
    };
    CHECK(load_from(memory_of(file), items, 2, NULL) == ULP_OK);
    CHECK(memcmp(first.data, b.values[0].data + 200, 400) == 0);
    CHECK(memcmp(second.data, b.values[1].data + 40, 40) == 0);

    guarded place = guarded_new(b.refs[0].nbytes);
    memcpy(place.data, b.refs[0].data, place.nbytes);
    ulp_item in_place = {.tensor = 0, .ref = addr(place.data), .ref_nbytes = place.nbytes, .out = addr(place.data),
                         .out_nbytes = place.nbytes, .count = UINT64_MAX};
    CHECK(load_from(memory_of(file), &in_place, 1, NULL) == ULP_OK);
    CHECK(same(place, b.values[0]));

    /* Wrong ranges and sizes. */
    ulp_item bad = items[1];
    bad.first = 64 * 96 - 100;
    CHECK(load_from(memory_of(file), &bad, 1, NULL) == ULP_E_ARGUMENT);
    bad.first = UINT64_MAX - 100;
    CHECK(load_from(memory_of(file), &bad, 1, NULL) == ULP_E_ARGUMENT);
    bad = items[1], bad.count = 199;
    CHECK(load_from(memory_of(file), &bad, 1, NULL) == ULP_E_ARGUMENT);
    bad = items[1], bad.tensor = N;
    CHECK(load_from(memory_of(file), &bad, 1, NULL) == ULP_E_ARGUMENT);
    bad = in_place, bad.out += 2, bad.out_nbytes -= 2;
    CHECK(load_from(memory_of(file), &bad, 1, NULL) == ULP_E_ARGUMENT && E.tensor == 0);

    guarded_free(first), guarded_free(second), guarded_free(place), guarded_free(file), batch_free(b);
}

static void test_small_capacity(void) {
    batch b = batch_new();
    guarded file = file_new(&b);
    const size_t capacities[] = {0, 1, file.nbytes / 2, file.nbytes - 1};
    for (int i = 0; i < 4; i++) {
        guarded space = guarded_new(capacities[i]);
        uint64_t written = 0;
        CHECK(save_to(&b, memory_of(space), NULL, NULL, &written) == ULP_E_SPACE);
        CHECK(written == file.nbytes && E.message[0] != '\0');
        guarded_free(space);
    }
    guarded_free(file), batch_free(b);
}

static void test_descriptors(void) {
    batch b = batch_new();
    guarded file = file_new(&b);
    uint64_t written = 0;
    char path[] = "/tmp/ulpack-abi-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0);
    CHECK(save_to(&b, file_of(fd), NULL, NULL, &written) == ULP_OK && written == file.nbytes);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)written);
    guarded back = guarded_new(written);
    CHECK(pread(fd, back.data, written, 0) == (ssize_t)written && same(back, file));
    check_file(&b, file_of(fd));
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)written);

    /* A length given is used: bytes after it are not part of the file. And a save starts where the descriptor is. */
    CHECK(write(fd, "more", 4) == 4);
    check_file(&b, (ulp_stream){fd, 0, written, 0});
    CHECK(save_to(&b, file_of(fd), NULL, NULL, &written) == ULP_OK);
    CHECK(pread(fd, back.data, written, (off_t)written + 4) == (ssize_t)written && same(back, file));
    CHECK(ftruncate(fd, (off_t)written / 2) == 0);
    ulp_item items[N];
    guarded outs[N];
    items_new(&b, items, outs);
    CHECK(load_from(file_of(fd), items, N, NULL) == ULP_E_TRUNCATED);
    CHECK(load_from((ulp_stream){fd, 0, written, 0}, items, N, NULL) < 0);

    /* Errors of the system arrive with their number. */
    close(fd);
    CHECK(save_to(&b, file_of(fd), NULL, NULL, &written) == ULP_E_IO && E.os_errno == EBADF);
    CHECK(load_from(file_of(fd), items, N, NULL) == ULP_E_IO && E.os_errno == EBADF);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(load_from(file_of(ends[0]), items, N, NULL) == ULP_E_IO && E.os_errno == ESPIPE);
    CHECK(save_to(&b, file_of(ends[1]), NULL, NULL, &written) == ULP_OK && written < 65536);
    CHECK(read(ends[0], back.data, written) == (ssize_t)written && same(back, file));
    close(ends[0]);
    CHECK(save_to(&b, file_of(ends[1]), NULL, NULL, &written) == ULP_E_IO && E.os_errno == EPIPE);
    close(ends[1]);
#ifdef __linux__
    fd = open("/dev/full", O_WRONLY);
    CHECK(fd >= 0 && save_to(&b, file_of(fd), NULL, NULL, &written) == ULP_E_IO && E.os_errno == ENOSPC);
    close(fd);
#endif
    items_free(outs);
    guarded_free(back), guarded_free(file), batch_free(b);
}

static void *cancel_soon(void *flag) {
    usleep(50000);
    __atomic_store_n((int32_t *)flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void test_cancel(void) {
    batch b = batch_new();
    guarded file = file_new(&b), space = guarded_new(file.nbytes);
    int32_t cancel = 1;
    uint64_t written = 0;
    ulp_options opt = {.cancel = addr(&cancel)};
    ulp_item items[N];
    guarded outs[N];
    items_new(&b, items, outs);
    CHECK(save_to(&b, memory_of(space), &opt, NULL, &written) == ULP_E_CANCELLED);
    CHECK(load_from(memory_of(file), items, N, &opt) == ULP_E_CANCELLED);

    /* A full pipe in non-blocking mode is waited for, until the caller gives up. */
    int ends[2];
    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], "x", 1) == 1) continue;
    CHECK(errno == EAGAIN);
    pthread_t impatient;
    cancel = 0;
    CHECK(pthread_create(&impatient, NULL, cancel_soon, &cancel) == 0);
    CHECK(save_to(&b, file_of(ends[1]), &opt, NULL, &written) == ULP_E_CANCELLED);
    CHECK(pthread_join(impatient, NULL) == 0);
    items_free(outs), close(ends[0]), close(ends[1]);
    guarded_free(space), guarded_free(file), batch_free(b);
}

static void test_references(void) {
    batch b = batch_new();
    guarded file = file_new(&b);
    ulp_item items[N];
    guarded outs[N];
    items_new(&b, items, outs);
    items[0].ref = 0, items[0].ref_nbytes = 0;
    CHECK(load_from(memory_of(file), items, N, NULL) == ULP_E_REFERENCE && E.tensor == 0);
    items[0].ref = addr(b.values[0].data), items[0].ref_nbytes = b.values[0].nbytes;
    CHECK(load_from(memory_of(file), items, N, NULL) == ULP_E_REFERENCE && E.tensor == 0);
    items[0].ref = addr(b.refs[0].data), items[0].ref_nbytes = b.refs[0].nbytes - 2;
    CHECK(load_from(memory_of(file), items, N, NULL) < 0);
    items_free(outs), guarded_free(file), batch_free(b);
}

static void test_damage(void) {
    batch b = batch_new();
    guarded file = file_new(&b), json, copy = guarded_new(file.nbytes);
    const ulp_options salvage = {.flags = ULP_F_SALVAGE}, verify = {.flags = ULP_F_VERIFY_ONLY};
    ulp_item items[N];
    guarded outs[N];
    int saved_something = 0;
    items_new(&b, items, outs);

    for (size_t n = 0; n < file.nbytes; n += 1 + n / 64) { /* cut short, densely at first */
        guarded part = guarded_copy(file.data, n);
        const int32_t code = load_from(memory_of(part), items, N, NULL);
        CHECK(code == ULP_E_TRUNCATED || code == ULP_E_CORRUPT);
        CHECK(is_damage(index_of(memory_of(part), &json)));
        guarded_free(part);
    }
    for (size_t bit = 0; bit < 8 * file.nbytes; bit += 1 + bit / 512) {
        memcpy(copy.data, file.data, file.nbytes);
        copy.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(is_damage(load_from(memory_of(copy), items, N, NULL)));
        CHECK(E.message[0] != '\0');
        CHECK(is_damage(load_from(memory_of(copy), items, N, &verify)));
        if (load_from(memory_of(copy), items, N, &salvage) == ULP_OK) {
            int bad = 0;
            for (int i = 0; i < N; i++) {
                if (items[i].status == ULP_OK) {
                    CHECK(same(outs[i], b.values[i]));
                } else {
                    CHECK(is_damage((int32_t)items[i].status));
                    bad++;
                }
            }
            CHECK(bad > 0);
            saved_something = 1;
        }
    }
    CHECK(saved_something);
    guarded noise = guarded_copy(b.values[1].data, b.values[1].nbytes);
    CHECK(is_damage(load_from(memory_of(noise), items, N, NULL)));
    CHECK(is_damage(index_of(memory_of(noise), &json)));

    /* Verify: checks all, needs no output, writes nothing. */
    for (int i = 0; i < N; i++) items[i].out = 0, items[i].out_nbytes = 0;
    CHECK(load_from(memory_of(file), items, N, &verify) == ULP_OK);
    items_free(outs);
    items_new(&b, items, outs);
    CHECK(load_from(memory_of(file), items, N, &verify) == ULP_OK);
    for (int i = 0; i < N; i++) CHECK(untouched(outs[i].data, outs[i].nbytes));
    items_free(outs), guarded_free(noise), guarded_free(copy), guarded_free(file), batch_free(b);
}

static void test_null_pointers(void) {
    batch b = batch_new();
    guarded file = file_new(&b), space = guarded_new(file.nbytes);
    ulp_stream out = memory_of(space), in = memory_of(file);
    uint64_t number = 0;
    ulp_item items[N];
    guarded outs[N];
    char json[64];
    items_new(&b, items, outs);
    const uint64_t *dims = (const uint64_t *)b.dims.data, ndims = b.dims.nbytes / 8;

    CHECK(CALL(p_ulp_info(json, 0, NULL, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_info(NULL, 1 << 20, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_info(NULL, 0, NULL, NULL)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save_bound(NULL, N, DIMS(b), TEXTS(b), &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save_bound(TENSORS(b), N, NULL, ndims, TEXTS(b), &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save_bound(TENSORS(b), N, DIMS(b), TEXTS(b), NULL, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save(NULL, TENSORS(b), N, DIMS(b), TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save(&out, NULL, N, DIMS(b), TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save(&out, TENSORS(b), N, NULL, 9, TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save(&out, TENSORS(b), N, NULL, 0, TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_save(&out, TENSORS(b), N, DIMS(b), TEXTS(b), NULL, NULL, NULL, &E)) == ULP_E_ARGUMENT);
    for (int which = 0; which < 3; which++) { /* names, structure, metadata */
        ulp_bytes text[3] = {bytes_of(b.names), bytes_of(b.structure), bytes_of(b.metadata)};
        text[which] = (ulp_bytes){0, 60};
        CHECK(CALL(p_ulp_save(&out, TENSORS(b), N, dims, ndims, text[0], text[1], text[2], NULL, NULL, &number, &E)) ==
              ULP_E_ARGUMENT);
    }
    CHECK(CALL(p_ulp_index(NULL, json, sizeof json, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_index(&in, NULL, 1 << 20, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_index(&in, json, sizeof json, NULL, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_load(NULL, items, N, NULL, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_load(&in, NULL, N, NULL, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_fingerprint(NULL, DIMS(b), bytes_of(b.names), &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_fingerprint(TENSORS(b), DIMS(b), bytes_of(b.names), NULL, &E)) == ULP_E_ARGUMENT);
    out.data = 0, in.data = 0;
    CHECK(CALL(p_ulp_save(&out, TENSORS(b), N, DIMS(b), TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_load(&in, items, N, NULL, &E)) == ULP_E_ARGUMENT);
    items[1].out = 0;
    CHECK(load_from(memory_of(file), items, N, NULL) == ULP_E_ARGUMENT && E.tensor == 1);
    items_free(outs), guarded_free(space), guarded_free(file), batch_free(b);
}

/* Each line spoils one field of one record; the call must say so, and name the record. */
static void test_absurd_tensors(void) {
    batch b = batch_new();
    guarded space = guarded_new(64 * 1024);
    const ulp_stream out = memory_of(space);
    const struct {
        size_t field;
        uint64_t value;
    } cases[] = {
#define FIELD(name, value) {offsetof(ulp_tensor, name), value}
        FIELD(data, 0),
        FIELD(data, UINT64_MAX - 10),
        FIELD(nbytes, 64 * 96 * 2 + 1),
        FIELD(nbytes, UINT64_MAX),
        FIELD(ref, UINT64_MAX - 10),
        FIELD(ref2, 1),
        FIELD(name_off, 47),
        FIELD(name_off, UINT64_MAX),
        FIELD(name_len, UINT64_MAX),
        FIELD(ref_name_len, 1000),
        FIELD(dtype, 15),
        FIELD(dtype, 256 + BF16),
        FIELD(dtype, UINT64_MAX),
        FIELD(dtype, F32), /* not the itemsize of the dtype */
        FIELD(itemsize, 0),
        FIELD(itemsize, UINT64_MAX),
        FIELD(ndim, 10),
        FIELD(ndim, UINT64_MAX),
        FIELD(shape_off, 8),
        FIELD(shape_off, UINT64_MAX),
        FIELD(flags, 1),
        FIELD(reserved, 1),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ulp_tensor bad[N];
        uint64_t number = 7;
        memcpy(bad, b.tensors.data, sizeof bad);
        memcpy((char *)bad + cases[i].field, &cases[i].value, 8); /* of record 0, a reference and all */
        ulp_tensor last = bad[0];
        bad[0] = bad[N - 1], bad[N - 1] = last;
        CHECK(CALL(p_ulp_save(&out, bad, N, DIMS(b), TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_ARGUMENT);
        CHECK(E.tensor == N - 1 && E.message[0] != '\0' && number == 0);
        CHECK(untouched(space.data, space.nbytes));
        CHECK(CALL(p_ulp_fingerprint(&last, DIMS(b), bytes_of(b.names), &number, &E)) == ULP_E_ARGUMENT);
    }
    const uint64_t huge[3] = {1ull << 40, 1ull << 40, 2};
    ulp_tensor t = *(TENSORS(b));
    uint64_t number;
    t.ndim = 3, t.shape_off = 0;
    CHECK(CALL(p_ulp_save_bound(&t, 1, huge, 3, TEXTS(b), &number, &E)) == ULP_E_LIMIT);
    guarded_free(space), batch_free(b);
}

static void test_absurd_calls(void) {
    batch b = batch_new();
    guarded file = file_new(&b), space = guarded_new(file.nbytes);
    ulp_stream out = memory_of(space), in = memory_of(file);
    uint64_t number = 0;
    ulp_item items[N];
    guarded outs[N];
    items_new(&b, items, outs);
    const uint64_t *dims = (const uint64_t *)b.dims.data;

    CHECK(CALL(p_ulp_save_bound(TENSORS(b), UINT64_MAX, DIMS(b), TEXTS(b), &number, &E)) == ULP_E_LIMIT);
    CHECK(CALL(p_ulp_save_bound(TENSORS(b), N, dims, UINT64_MAX, TEXTS(b), &number, &E)) == ULP_E_LIMIT);
    CHECK(CALL(p_ulp_save(&out, TENSORS(b), 1ull << 60, DIMS(b), TEXTS(b), NULL, NULL, &number, &E)) == ULP_E_LIMIT);
    CHECK(CALL(p_ulp_load(&in, items, 1ull << 60, NULL, &E)) == ULP_E_LIMIT);
    CHECK(CALL(p_ulp_save_bound((const ulp_tensor *)(b.tensors.data + 4), 1, DIMS(b), TEXTS(b), &number, &E)) ==
          ULP_E_ARGUMENT);
    ulp_bytes wraps = {addr(b.names.data), UINT64_MAX};
    CHECK(CALL(p_ulp_save_bound(TENSORS(b), N, DIMS(b), wraps, bytes_of(b.structure), bytes_of(b.metadata), &number,
                                &E)) == ULP_E_ARGUMENT);
    CHECK(CALL(p_ulp_info((char *)&number, UINT64_MAX, NULL, &E)) == ULP_E_ARGUMENT);

    const ulp_stream streams[] = {
        {-2, out.data, out.nbytes, 0},
        {INT64_MIN, out.data, out.nbytes, 0},
        {INT64_MAX, 0, 0, 0},
        {-1, out.data, UINT64_MAX, 0},
        {-1, out.data, out.nbytes, 1},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        CHECK(save_to(&b, streams[i], NULL, NULL, &number) == ULP_E_ARGUMENT);
        CHECK(load_from(streams[i], items, N, NULL) == ULP_E_ARGUMENT);
        CHECK(CALL(p_ulp_index(&streams[i], NULL, 0, &number, &E)) == ULP_E_ARGUMENT);
    }
    const ulp_options options[] = {
        {.threads = UINT64_MAX},           {.effort = 4},          {.effort = UINT64_MAX}, {.flags = 8},
        {.flags = UINT64_MAX},             {.reserved = {0, 0, 1}}, {.cancel = addr(&number) + 1},
        {.progress = addr(&number) + 4},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        CHECK(save_to(&b, out, &options[i], NULL, &number) == ULP_E_ARGUMENT);
        CHECK(options[i].effort != 0 || load_from(in, items, N, &options[i]) == ULP_E_ARGUMENT);
    }
    const ulp_options salvage = {.flags = ULP_F_SALVAGE};
    CHECK(save_to(&b, out, &salvage, NULL, &number) == ULP_E_ARGUMENT); /* a flag of ulp_load */
    const ulp_options relate = {.flags = ULP_F_RELATE};
    CHECK(load_from(in, items, N, &relate) == ULP_E_ARGUMENT); /* a flag of ulp_save */

    const struct {
        size_t field;
        uint64_t value;
    } cases[] = {
#define ITEM(name, value) {offsetof(ulp_item, name), value}
        ITEM(tensor, N), ITEM(tensor, UINT64_MAX), ITEM(ref, UINT64_MAX - 10), ITEM(ref_nbytes, UINT64_MAX),
        ITEM(out, UINT64_MAX - 10), ITEM(out_nbytes, 5), ITEM(out_nbytes, UINT64_MAX), ITEM(first, 1),
        ITEM(first, UINT64_MAX), ITEM(count, 0), ITEM(count, UINT64_MAX - 1), ITEM(reserved, 1),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        items_free(outs), items_new(&b, items, outs);
        memcpy((char *)&items[0] + cases[i].field, &cases[i].value, 8);
        CHECK(load_from(in, items, N, NULL) == ULP_E_ARGUMENT);
    }
    items_free(outs), guarded_free(space), guarded_free(file), batch_free(b);
}

/* A mapped file that somebody cuts short faults when it is read. That is an error of this call, not the end of the
 * process. */
static void test_vanished_memory(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t dims[1] = {8 * page};
    char path[] = "/tmp/ulpack-abi-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)(8 * page)) == 0);
    uint8_t *map = mmap(NULL, 8 * page, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && ftruncate(fd, (off_t)page) == 0);
    const ulp_tensor t = {.data = addr(map), .nbytes = 8 * page, .name_len = 1, .dtype = U8, .itemsize = 1, .ndim = 1};
    const ulp_bytes name = {addr("x"), 1}, nothing = {0, 0};
    uint64_t number = 0;
    CHECK(CALL(p_ulp_fingerprint(&t, dims, 1, name, &number, &E)) == ULP_E_IO && E.message[0] != '\0');
    guarded space = guarded_new(16 * page);
    ulp_stream out = memory_of(space);
    const ulp_options opt = {.threads = 2};
    CHECK(CALL(p_ulp_save(&out, &t, 1, dims, 1, name, nothing, nothing, &opt, NULL, &number, &E)) == ULP_E_IO);
    CHECK(E.message[0] != '\0');
    guarded_free(space), munmap(map, 8 * page), close(fd);
}

static void *work(void *argument) {
    batch *b = argument;
    fp_set(FP_UNUSUAL);
    for (int i = 0; i < 10; i++) {
        ulp_error error;
        ulp_item items[N];
        guarded outs[N];
        uint64_t written = 0;
        guarded space = guarded_new(64 * 1024);
        ulp_stream stream = memory_of(space);
        items_new(b, items, outs);
        CHECK(CALL(p_ulp_save(&stream, TENSORS(*b), N, DIMS(*b), TEXTS(*b), NULL, NULL, &written, &error)) == ULP_OK);
        stream.nbytes = written;
        CHECK(CALL(p_ulp_load(&stream, items, N, NULL, &error)) == ULP_OK);
        for (int k = 0; k < N; k++) CHECK(same(outs[k], b->values[k]));
        items_free(outs), guarded_free(space);
    }
    return NULL;
}

static void test_threads(void) {
    batch b = batch_new();
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, work, &b) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    batch_free(b);
}

static void test_fork(void) {
    batch b = batch_new();
    guarded file = file_new(&b);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        ulp_stream in = memory_of(file);
        uint64_t number = 0;
        alarm(20); /* a call that hangs ends the child, and that fails the check on its status */
        CHECK(p_ulp_forked() == 1 && p_ulp_abi_version() == ULP_ABI_VERSION);
        CHECK(CALL(p_ulp_info(NULL, 0, &number, &E)) == ULP_E_FORKED && E.message[0] != '\0' && E.tensor == -1);
        CHECK(CALL(p_ulp_info(NULL, 0, &number, NULL)) == ULP_E_FORKED);
        CHECK(CALL(p_ulp_save_bound(TENSORS(b), N, DIMS(b), TEXTS(b), &number, &E)) == ULP_E_FORKED);
        CHECK(save_to(&b, in, NULL, NULL, &number) == ULP_E_FORKED);
        CHECK(CALL(p_ulp_index(&in, NULL, 0, &number, &E)) == ULP_E_FORKED);
        CHECK(load_from(in, NULL, 0, NULL) == ULP_E_FORKED);
        CHECK(CALL(p_ulp_fingerprint(TENSORS(b), DIMS(b), bytes_of(b.names), &number, &E)) == ULP_E_FORKED);
        CHECK(CALL(p_ulp_free_memory()) == ULP_E_FORKED);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(p_ulp_forked() == 0);
    check_file(&b, memory_of(file));
    guarded_free(file), batch_free(b);
}

static void test_free_memory(void) { CHECK(CALL(p_ulp_free_memory()) == ULP_OK); }

/* The library's own threads must not inherit the flush-to-zero mode of the thread that loads it: a debugger's look at
 * the control word of each. */
static void test_worker_mode(const char *path) {
#if defined(__linux__) && defined(__x86_64__)
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a failed check */
        open_library(path);
        test_round_trip();
        test_threads();
        CHECK(write(ready[1], "r", 1) == 1);
        for (;;) pause();
    }
    char byte, tasks[64];
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    snprintf(tasks, sizeof tasks, "/proc/%d/task", (int)child);
    DIR *directory = opendir(tasks);
    CHECK(directory != NULL);
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const pid_t thread = (pid_t)atoi(entry->d_name);
        struct user_fpregs_struct registers;
        int status;
        if (thread == 0 || thread == child) continue;
        CHECK(ptrace(PTRACE_SEIZE, thread, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0);
        CHECK(waitpid(thread, &status, __WALL) == thread);
        CHECK(ptrace(PTRACE_GETFPREGS, thread, 0, &registers) == 0);
        CHECK(ptrace(PTRACE_DETACH, thread, 0, 0) == 0);
        CHECK((registers.mxcsr & ~0x3Fu) == 0x1F80u); /* but for the sticky flags, the default */
        seen++;
    }
    CHECK(seen >= 2);
    closedir(directory);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
#else
    (void)path;
#endif
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: test_abi LIBRARY\n");
        return 2;
    }
    fp_set(FP_UNUSUAL);
    test_worker_mode(argv[1]); /* before this process loads the library: it forks */
    printf("worker_mode\n");
    open_library(argv[1]);
#define RUN(name) test_##name(), printf("%s\n", #name), fflush(stdout)
    RUN(texts), RUN(info), RUN(round_trip), RUN(empty_batch), RUN(ranges_and_in_place), RUN(small_capacity);
    RUN(descriptors), RUN(cancel), RUN(references), RUN(damage), RUN(null_pointers), RUN(absurd_tensors);
    RUN(absurd_calls), RUN(vanished_memory), RUN(threads), RUN(fork), RUN(free_memory);
    printf("all C ABI tests passed\n");
    return 0;
}
