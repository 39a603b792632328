/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a model computes between its layers: FLOAT32 [rows, width] arrays in the memory of its
 * device, one buffer for all of them, which is kept from pass to pass and made anew when there are
 * more rows. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* All zero = nothing is reserved. */
typedef struct
{
  TpsBuffer *buffer;
  gsize capacity; /* rows */
} TpsActivations;

/* Room for `rows` rows of each of `n_arrays` arrays: arrays[i] is where one of widths[i] lies,
 * 64-byte aligned. Keeps buffer and arrays where there is room already; else what they held is
 * gone, when `stream` has passed what it still has to do with it. Errors: RESOURCE_EXHAUSTED,
 * DEVICE_LOST; nothing is reserved then. */
gboolean tps_activations_reserve (TpsActivations *activations, TpsStream *stream, gsize rows,
                                  const gsize *widths, guint n_arrays, gfloat **arrays,
                                  GError **error);

/* When the stream has passed. */
void tps_activations_clear (TpsActivations *activations);

G_END_DECLS
