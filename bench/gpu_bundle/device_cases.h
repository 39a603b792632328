/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What device_ops measures: each operation with the bytes that it must move at least. Results go to
 * `a`. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDevice *device;
  TpsStream *stream;
  gsize n_elems;              /* a power of two, so that any odd factor permutes rows */
  TpsBuffer *a, *b;           /* float [n_elems] each, above 0 */
  TpsBuffer *state;           /* float [2 * n_elems], above 0 */
  TpsBuffer *ids, *found_ids; /* gint64 [n_elems] each */
} TpsDeviceWork;

typedef struct TpsDeviceCase TpsDeviceCase;
struct TpsDeviceCase
{
  const gchar *name;
  gsize dim; /* of a row */
  /* ids are so many times each of n_elems / dim / n_copies; 0: they are below `dim` */
  gsize n_copies;
  gdouble (*bytes) (const TpsDeviceWork *work, const TpsDeviceCase *what);
  void (*enqueue) (const TpsDeviceWork *work, const TpsDeviceCase *what);
  gdouble to_reach;       /* of the copy; 0 = nothing is asked */
  gdouble tolerance;      /* relative; 0 = the CPU's bits */
  gdouble bytes_per_elem; /* where bytes is tps_device_case_bytes_per_elem() */
  TpsOptimizerKind optimizer;
  gdouble momentum;
};

/* The first is the copy. */
const TpsDeviceCase *tps_device_cases_get (guint *n_cases);

/* Ids of the case are in [0, this). */
gsize tps_device_case_get_n_ids (const TpsDeviceWork *work, const TpsDeviceCase *what);

static inline gfloat *
tps_device_floats_of (TpsBuffer *buffer)
{
  return (gfloat *) (gpointer) tps_buffer_get_data (buffer);
}

static inline gint64 *
tps_device_ids_of (TpsBuffer *buffer)
{
  return (gint64 *) (gpointer) tps_buffer_get_data (buffer);
}

G_END_DECLS
