/* ulpack C ABI, version 1.
 *
 * A delta file (.ulp, see go/FORMAT.md) is written by ulp_save and read by ulp_index + ulp_load.
 *
 * Ownership: the caller allocates every buffer, in and out. The library reads inputs, never writes to them, and
 * keeps no pointer after a call returns. Every integer is a fixed-width little-endian field; pointers travel as
 * uint64_t so that one struct layout serves every caller (NumPy structured arrays fill them column by column).
 *
 * Threads: every function may be called from any thread, also at the same time on the same inputs.
 * Fork: after fork() every function in the child returns ULP_E_FORKED at once (the Go runtime did not survive);
 * load a private copy of the library there, or exec.
 * Signals: a call does not return on a signal; set *cancel to a non-zero value and it returns ULP_E_CANCELLED
 * after the chunks in flight (a few milliseconds).
 */
#ifndef ULPACK_H
#define ULPACK_H
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define ULP_API __declspec(dllexport)
#else
#define ULP_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ULP_ABI_VERSION 1

/* Result codes: 0 is success, every error is negative. The kinds are those of go/ulpack's Error.Kind. */
enum {
    ULP_OK = 0,
    ULP_E_ARGUMENT = -1,    /* the call itself is wrong: null pointer, size that does not fit the shape, bad option */
    ULP_E_CORRUPT = -2,     /* the file breaks a MUST of the format, or a checksum does not hold */
    ULP_E_TRUNCATED = -3,   /* the file ends early */
    ULP_E_REFERENCE = -4,   /* a reference is missing, or is not the one the file was made against */
    ULP_E_UNSUPPORTED = -5, /* a format version, plan or dtype this library does not know */
    ULP_E_IO = -6,          /* reading or writing failed; os_errno says why */
    ULP_E_SPACE = -7,       /* the caller's output buffer is too small; the needed size is reported */
    ULP_E_CANCELLED = -8,   /* *cancel was set */
    ULP_E_FORKED = -9,      /* called in a child after fork() */
    ULP_E_LIMIT = -10,      /* a declared size is beyond the limits of the format or of this machine */
    ULP_E_INTERNAL = -100   /* a bug in this library; the message holds the panic */
};

/* What went wrong. tensor and offset are -1 when they do not apply. */
typedef struct ulp_error {
    int64_t tensor;   /* index of the tensor (ulp_save: in the call; ulp_load, ulp_index: in the file) */
    int64_t offset;   /* byte offset in the file */
    int64_t os_errno; /* for ULP_E_IO */
    char message[488];
} ulp_error;

/* Bytes in one block with offsets into it; used for names, dtype names and the caller's structure. */
typedef struct ulp_bytes {
    uint64_t data; /* const uint8_t* */
    uint64_t nbytes;
} ulp_bytes;

/* One tensor to save: C-contiguous, native little-endian. 16 fields of 8 bytes. */
typedef struct ulp_tensor {
    uint64_t data;          /* const void*; may be 0 when nbytes is 0 */
    uint64_t nbytes;        /* must equal the product of the shape times the dtype's size */
    uint64_t ref;           /* const void* to the reference, 0 for none; same dtype, shape and nbytes as the target */
    uint64_t ref2;          /* reserved for a second candidate reference: must be 0 */
    uint64_t name_off;      /* the tensor's name: UTF-8 bytes in the names block */
    uint64_t name_len;
    uint64_t ref_name_off;  /* name of the tensor in the reference; length 0 when it is the same name */
    uint64_t ref_name_len;
    uint64_t dtype;         /* dtype code of go/FORMAT.md, "Dtypes"; 0 = named */
    uint64_t dtype_off;     /* for dtype 0: UTF-8 name in the names block */
    uint64_t dtype_len;
    uint64_t itemsize;      /* bytes an element; for dtype 0 whatever the caller says, at least 1 */
    uint64_t ndim;
    uint64_t shape_off;     /* index of the first dimension in the dims array */
    uint64_t flags;         /* must be 0 */
    uint64_t reserved;      /* must be 0 */
} ulp_tensor;

typedef struct ulp_options {
    uint64_t threads;     /* 0 = number of CPUs */
    uint64_t cancel;      /* const volatile int32_t*, polled between chunks; may be 0 */
    uint64_t progress;    /* volatile uint64_t*, raw bytes done so far, stored atomically; may be 0 */
    uint64_t effort;      /* 0 = default; 1 = fast, 2 = default, 3 = max; recorded in the file */
    uint64_t flags;       /* ULP_F_* */
    uint64_t reserved[3]; /* must be 0 */
} ulp_options;

enum {
    ULP_F_SALVAGE = 1,     /* ulp_load: go on after a bad tensor; the verdict is in its item */
    ULP_F_VERIFY_ONLY = 2, /* ulp_load: check everything and write nothing (out may be 0) */
    ULP_F_RELATE = 4       /* ulp_save: tensors may be stored as they follow from others of the file; see ulp_load */
};

/* Where a file goes to or comes from: an open descriptor, or memory. */
typedef struct ulp_stream {
    int64_t fd;        /* used when >= 0: written sequentially from its current position; read with pread from 0 */
    uint64_t data;     /* memory, when fd is -1 */
    uint64_t nbytes;   /* capacity (save) or length (read); for fd reads: 0 = ask the file system */
    uint64_t reserved; /* must be 0 */
} ulp_stream;

/* What happened to one tensor of a save. */
typedef struct ulp_saved {
    uint64_t plan;        /* plan code of go/FORMAT.md */
    uint64_t nbytes;      /* bytes of its blob in the file */
    uint64_t fingerprint; /* of the value saved */
    uint64_t detail;      /* predictor | token map << 8 | clusters << 16, for display */
} ulp_saved;

/* One tensor (or a range of its elements) to load. 12 fields of 8 bytes. */
typedef struct ulp_item {
    uint64_t tensor;    /* index in the file */
    uint64_t ref;       /* const void*: the whole reference tensor, 0 for none. It may be equal to out: in place */
    uint64_t ref_nbytes;
    uint64_t out;       /* void*: where the elements go */
    uint64_t out_nbytes;/* must equal the size of the range */
    uint64_t first;     /* first element of the range, in row-major order */
    uint64_t count;     /* number of elements; UINT64_MAX = all */
    int64_t status;     /* out: 0 or an error code */
    int64_t offset;     /* out: byte offset of the damage, -1 if unknown */
    uint64_t fingerprint; /* out: of the whole value, as recorded in the file */
    uint64_t reserved[2]; /* must be 0 */
} ulp_item;

ULP_API int32_t ulp_abi_version(void);
ULP_API int32_t ulp_forked(void);                 /* 1 in a child after fork(), else 0 */
ULP_API const char *ulp_strerror(int32_t code);   /* static text for a code */
/* Library version, kernels in use, CPU features: UTF-8 JSON. Same protocol as ulp_index for cap and needed. */
ULP_API int32_t ulp_info(char *json, uint64_t cap, uint64_t *needed, ulp_error *err);

/* Upper bound of the file size for these tensors; enough for a memory stream. */
ULP_API int32_t ulp_save_bound(const ulp_tensor *tensors, uint64_t n, const uint64_t *dims, uint64_t ndims,
                               ulp_bytes names, ulp_bytes structure, ulp_bytes metadata, uint64_t *bound, ulp_error *err);

/* Write a file. structure is the caller's nested state (FORMAT.md, "Structure"; empty = a flat dict in tensor order);
 * metadata is free UTF-8 JSON, may be empty. saved (n entries) may be NULL. *written gets the file's length. */
ULP_API int32_t ulp_save(const ulp_stream *out, const ulp_tensor *tensors, uint64_t n, const uint64_t *dims,
                         uint64_t ndims, ulp_bytes names, ulp_bytes structure, ulp_bytes metadata,
                         const ulp_options *opt, ulp_saved *saved, uint64_t *written, ulp_error *err);

/* The index of a file as UTF-8 JSON (layout in go/FORMAT.md's annex "Index as JSON"). If cap is too small nothing is
 * written and ULP_E_SPACE is returned with *needed set. Checks everything but the blobs themselves. */
ULP_API int32_t ulp_index(const ulp_stream *in, char *json, uint64_t cap, uint64_t *needed, ulp_error *err);

/* Decode tensors. Items may be in any order; the library checks the references' fingerprints, the blobs' checksums and
 * the fingerprints of what it wrote. Without ULP_F_SALVAGE the first error ends the call; outputs are then undefined.
 * In a file made with ULP_F_RELATE a tensor may need others: their values, which are decoded without being asked for, and
 * their references. Those come from items for these tensors in the same call; one with count 0 only lends its ref. "needs"
 * in the index lists, for each tensor, the tensors whose references it takes. */
ULP_API int32_t ulp_load(const ulp_stream *in, ulp_item *items, uint64_t n, const ulp_options *opt, ulp_error *err);

/* Fingerprint of a value (dtype, shape, bits). */
ULP_API int32_t ulp_fingerprint(const ulp_tensor *tensor, const uint64_t *dims, uint64_t ndims, ulp_bytes names,
                                uint64_t *fingerprint, ulp_error *err);

/* Return unused memory to the system. */
ULP_API int32_t ulp_free_memory(void);

#ifdef __cplusplus
}
#endif
#endif
