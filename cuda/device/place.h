/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The kind of memory at an address, as known to CUDA. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_CUDA_PLACE_PAGEABLE, /* host memory that CUDA copies through a buffer of its own */
  TPS_CUDA_PLACE_PINNED,   /* page-locked host memory */
  TPS_CUDA_PLACE_DEVICE,
} TpsCudaPlace;

/* Returns the kind of memory at `memory`; managed memory counts as DEVICE. Thread: any. */
TpsCudaPlace tps_cuda_place_of (gconstpointer memory);

G_END_DECLS
