/* The C face of the library: every public function passes here before any Go code runs.
 *
 * Fork: the Go runtime does not survive fork(), and a call into it from the child hangs. A pthread_atfork handler
 * notes the fork, and every entry tests that note first. It also sees forks that no Python hook sees.
 * Floating point: see fpcontrol.h. */
#include <string.h>

#include "_cgo_export.h"
#include "fpcontrol.h"
#include "ulpack.h"

_Static_assert(sizeof(void *) == 8, "ulpack needs a 64-bit platform");

#ifdef _WIN32

enum { forked = 0 };

#else
#include <pthread.h>

static volatile int forked;

static void in_child(void) { forked = 1; }

/* The Go runtime starts its first thread while the library is being loaded, and every later thread descends from it
 * and inherits its control word. So load with the default one: the first constructor runs before the runtime's, which
 * has no priority, and the second after it. */
static uint64_t loader_fp;

__attribute__((constructor(101))) static void before_runtime(void) {
    pthread_atfork(NULL, NULL, in_child);
    loader_fp = fp_enter();
}

__attribute__((constructor)) static void after_runtime(void) { fp_leave(loader_fp); }

#endif

static int32_t refuse(ulp_error *err) {
    if (err != NULL) {
        memset(err, 0, sizeof *err);
        err->tensor = -1;
        err->offset = -1;
        strncpy(err->message, ulp_strerror(ULP_E_FORKED), sizeof err->message - 1);
    }
    return ULP_E_FORKED;
}

/* Run one call into Go under the default control word. */
#define ENTER(err, call)                  \
    do {                                  \
        if (forked) return refuse(err);   \
        const uint64_t caller = fp_enter(); \
        const int32_t code = (call);      \
        fp_leave(caller);                 \
        return code;                      \
    } while (0)

int32_t ulp_abi_version(void) { return ULP_ABI_VERSION; }

int32_t ulp_forked(void) { return forked; }

const char *ulp_strerror(int32_t code) {
    switch (code) {
    case ULP_OK: return "success";
    case ULP_E_ARGUMENT: return "invalid argument";
    case ULP_E_CORRUPT: return "the file is corrupt";
    case ULP_E_TRUNCATED: return "the file is truncated";
    case ULP_E_REFERENCE: return "a reference is missing or is not the one the file was made against";
    case ULP_E_UNSUPPORTED: return "unsupported format version, plan or dtype";
    case ULP_E_IO: return "reading or writing failed";
    case ULP_E_SPACE: return "the output buffer is too small";
    case ULP_E_CANCELLED: return "cancelled";
    case ULP_E_FORKED: return "called in a child after fork(): load a private copy of the library there, or exec";
    case ULP_E_LIMIT: return "a declared size is beyond the limits of the format or of this machine";
    case ULP_E_INTERNAL: return "internal error: a bug in ulpack";
    default: return "unknown error code";
    }
}

int32_t ulp_info(char *json, uint64_t cap, uint64_t *needed, ulp_error *err) {
    ENTER(err, ulpGoInfo(json, cap, needed, err));
}

int32_t ulp_save_bound(const ulp_tensor *tensors, uint64_t n, const uint64_t *dims, uint64_t ndims, ulp_bytes names,
                       ulp_bytes structure, ulp_bytes metadata, uint64_t *bound, ulp_error *err) {
    ENTER(err, ulpGoSaveBound((ulp_tensor *)tensors, n, (uint64_t *)dims, ndims, names, structure, metadata, bound,
                              err));
}

int32_t ulp_save(const ulp_stream *out, const ulp_tensor *tensors, uint64_t n, const uint64_t *dims, uint64_t ndims,
                 ulp_bytes names, ulp_bytes structure, ulp_bytes metadata, const ulp_options *opt, ulp_saved *saved,
                 uint64_t *written, ulp_error *err) {
    ENTER(err, ulpGoSave((ulp_stream *)out, (ulp_tensor *)tensors, n, (uint64_t *)dims, ndims, names, structure,
                         metadata, (ulp_options *)opt, saved, written, err));
}

int32_t ulp_index(const ulp_stream *in, char *json, uint64_t cap, uint64_t *needed, ulp_error *err) {
    ENTER(err, ulpGoIndex((ulp_stream *)in, json, cap, needed, err));
}

int32_t ulp_load(const ulp_stream *in, ulp_item *items, uint64_t n, const ulp_options *opt, ulp_error *err) {
    ENTER(err, ulpGoLoad((ulp_stream *)in, items, n, (ulp_options *)opt, err));
}

int32_t ulp_fingerprint(const ulp_tensor *tensor, const uint64_t *dims, uint64_t ndims, ulp_bytes names,
                        uint64_t *fingerprint, ulp_error *err) {
    ENTER(err, ulpGoFingerprint((ulp_tensor *)tensor, (uint64_t *)dims, ndims, names, fingerprint, err));
}

int32_t ulp_free_memory(void) { ENTER(NULL, ulpGoFreeMemory()); }
