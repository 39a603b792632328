/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/kernels/vectorize.h"

/* A tile keeps 16 sums in registers. A step of it loads at most 5 vectors. */
#define LANES 16
#define DOT_ROWS 4
#define WIDE_ROWS 4
#define NARROW_ROWS 8
#ifdef TPS_TARGET_V4
#define SKINNY_TARGETS TPS_TARGET_V4
#else
#define SKINNY_TARGETS
#endif

#include "runtime/device/cpu/kernels/skinny_tiles.h"

#include "runtime/device/cpu/kernels/skinny_panels.h" /* uses the tiles */

const TpsSkinnyProducts tps_skinny_products_of_16 = SKINNY_PRODUCTS;
