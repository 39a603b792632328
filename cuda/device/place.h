/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Where memory lies, as CUDA sees it from the address. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_CUDA_PLACE_PAGEABLE, /* the host's, and CUDA copies it by way of its own */
  TPS_CUDA_PLACE_PINNED,   /* the host's, page-locked */
  TPS_CUDA_PLACE_DEVICE,
} TpsCudaPlace;

/* Thread: any. */
TpsCudaPlace tps_cuda_place_of (gconstpointer memory);

G_END_DECLS
