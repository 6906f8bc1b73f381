/* The floating-point control word of the calling thread.
 *
 * A caller may run with subnormals flushed to zero (torch.set_flush_denormal) or another rounding mode. The library
 * computes in the default mode and hands the caller's mode back untouched, sticky exception flags included. */
#ifndef ULPACK_FPCONTROL_H
#define ULPACK_FPCONTROL_H
#include <stdint.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>

/* All exceptions masked, round to nearest, no flush to zero, no denormals-are-zero. */
#define FP_DEFAULT 0x1F80u

static inline uint64_t fp_enter(void) {
    uint64_t caller = _mm_getcsr();
    _mm_setcsr(FP_DEFAULT);
    return caller;
}

static inline void fp_leave(uint64_t caller) { _mm_setcsr((unsigned)caller); }

#elif defined(__aarch64__)

static inline uint64_t fp_enter(void) {
    uint64_t caller;
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return caller;
}

static inline void fp_leave(uint64_t caller) { __asm__ volatile("msr fpcr, %0" : : "r"(caller)); }

#else

static inline uint64_t fp_enter(void) { return 0; }
static inline void fp_leave(uint64_t caller) { (void)caller; }

#endif
#endif
