/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Intermediate results of a model: FLOAT32 [rows, width] arrays in the memory of its device, all in
 * one buffer. The buffer is kept between passes and reallocated when the number of rows grows. */

#pragma once

#include "runtime/device/backend.h"

/* All zero: there is no buffer. */
typedef struct
{
  TpsBuffer *buffer;
  gsize capacity; /* rows */
} TpsActivations;

/* Makes room for `rows` rows of each of `n_arrays` arrays. If there is already enough room, the
 * buffer, its contents and `arrays` do not change, so the caller must keep `arrays` between calls.
 * Otherwise, waits until `stream` has passed all queued work, replaces the buffer, and sets
 * arrays[i] to the array of width widths[i], aligned to 64 bytes and borrowed from the buffer.
 * Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; the previous arrays must then not be used. */
gboolean tps_activations_reserve (TpsActivations *activations, TpsStream *stream, gsize rows,
                                  const gsize *widths, guint n_arrays, gfloat **arrays,
                                  GError **error);

/* Releases the buffer. All work that uses it must be done. */
void tps_activations_clear (TpsActivations *activations);
