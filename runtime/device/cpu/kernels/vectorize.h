/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compilation of the loops of the CPU backend. Each loop is compiled for AVX-512 (x86-64-v4, whose
 * byte, word and short-vector parts make half floats four times as fast as avx512f alone), for AVX2
 * (x86-64-v3) and for any x86-64. The program selects the version when it starts.
 *
 * All versions give the same bits: elements are independent, each element passes the same
 * operations in the same order, and -ffp-contract=off keeps the two roundings of a*b+c.
 */

#pragma once

/* TPS_NO_TARGET_CLONES disables the clones: their resolvers run before the start-up code of a
 * sanitizer (gcc 12's thread sanitizer crashes on them), and clang 14 refuses the attribute in some
 * places. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(TPS_NO_TARGET_CLONES)
#define TPS_TARGET_CLONES \
  __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default")))
/* Compiles a function for AVX-512 only. Not defined in builds without clones. */
#define TPS_TARGET_V4 __attribute__ ((target ("arch=x86-64-v4")))
#else
#define TPS_TARGET_CLONES
#endif

/* Marks a loop whose iteration i accesses only element i of each array, so that iterations do not
 * depend on each other. The arrays may be identical. */
#if defined(__clang__)
#define TPS_INDEPENDENT_ITERATIONS _Pragma ("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TPS_INDEPENDENT_ITERATIONS _Pragma ("GCC ivdep")
#else
#define TPS_INDEPENDENT_ITERATIONS
#endif

#define TPS_INLINE static inline __attribute__ ((always_inline))
