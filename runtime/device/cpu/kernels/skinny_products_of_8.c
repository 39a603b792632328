/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/kernels/vectorize.h"

/* A tile keeps 12 sums in registers. A step of it loads at most 4 vectors. */
#define LANES 8
#define DOT_ROWS 3
#define WIDE_ROWS 3
#define NARROW_ROWS 6
#define SKINNY_TARGETS TPS_TARGET_CLONES

#include "runtime/device/cpu/kernels/skinny_tiles.h"

#include "runtime/device/cpu/kernels/skinny_panels.h" /* uses the tiles */

const TpsSkinnyProducts tps_skinny_products_of_8 = SKINNY_PRODUCTS;
