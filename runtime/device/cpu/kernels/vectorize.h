/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How the loops of the CPU backend are compiled: each for AVX-512 (x86-64-v4: with its byte, word
 * and short-vector parts, which make half floats four times as fast as avx512f alone), AVX2 (v3)
 * and any x86-64, picked when the program starts.
 *
 * The versions give the same bits: elements are independent, each goes through the same operations
 * in the same order, and -ffp-contract=off keeps a*b+c from becoming one rounding instead of two.
 */

#pragma once

/* TPS_NO_TARGET_CLONES: the resolvers run before a sanitizer's start-up code (gcc 12's thread
 * sanitizer crashes on them), and clang 14 refuses the attribute in places. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) \
    && !defined(TPS_NO_TARGET_CLONES)
#define TPS_TARGET_CLONES \
  __attribute__ ((target_clones ("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TPS_TARGET_CLONES
#endif

/* Before a loop whose iteration i reads and writes only element i of each array: the arrays may be
 * the same one, but there is nothing to wait for between iterations. */
#if defined(__clang__)
#define TPS_INDEPENDENT_ITERATIONS _Pragma ("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TPS_INDEPENDENT_ITERATIONS _Pragma ("GCC ivdep")
#else
#define TPS_INDEPENDENT_ITERATIONS
#endif

#define TPS_INLINE static inline __attribute__ ((always_inline))
