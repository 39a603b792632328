/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Intermediate results of a model: FLOAT32 [rows, width] arrays in the memory of its device, all in
 * one buffer. The buffer is kept between passes and reallocated when the number of rows grows. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* An all-zero value has no buffer. */
typedef struct
{
  TpsBuffer *buffer;
  gsize capacity; /* rows */
} TpsActivations;

/* Makes room for `rows` rows of each of `n_arrays` arrays. arrays[i], an output, is the array of
 * width widths[i], aligned to 64 bytes. If there is already enough room, the buffer and its
 * contents are kept. Otherwise a new buffer replaces the old one, which is released when `stream`
 * has passed the work queued on it. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; then there is no
 * buffer. */
gboolean tps_activations_reserve (TpsActivations *activations, TpsStream *stream, gsize rows,
                                  const gsize *widths, guint n_arrays, gfloat **arrays,
                                  GError **error);

/* Releases the buffer. All work that uses it must be done. */
void tps_activations_clear (TpsActivations *activations);

G_END_DECLS
