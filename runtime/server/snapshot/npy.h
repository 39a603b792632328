/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The header of NumPy's .npy files, versions 1 to 3. */

#pragma once

#include "runtime/server/snapshot/safetensors.h"

/* The number of bytes that contain the length of the header. */
#define TPS_NPY_PREFIX_BYTES 12

/* Returns the offset of the elements; 0 = `prefix` [TPS_NPY_PREFIX_BYTES] is not the beginning of a
 * .npy file of these versions. */
gint64 tps_npy_get_data_begin (const guint8 *prefix);

/* Reads the text of the header, up to the elements, into `tensor`: dtype, element_bytes, n_dims and
 * dims. FALSE: the file does not consist of little-endian floating-point numbers in C order, with
 * at most TPS_TENSOR_MAX_DIMS dimensions. */
gboolean tps_npy_parse (const gchar *text, gsize n_bytes, TpsSafetensor *tensor);
