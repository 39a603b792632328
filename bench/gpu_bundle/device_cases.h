/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations measured by device_ops, each with the minimum number of bytes that it must move.
 * Results are written to `a`. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDevice *device;
  TpsStream *stream;
  /* a power of two, so that multiplying by any odd factor permutes rows */
  gsize n_elems;
  TpsBuffer *a, *b;           /* float [n_elems] each, above 0 */
  TpsBuffer *state;           /* float [2 * n_elems], above 0 */
  TpsBuffer *ids, *found_ids; /* gint64 [n_elems] each */
} TpsDeviceWork;

typedef struct TpsDeviceCase TpsDeviceCase;
struct TpsDeviceCase
{
  const gchar *name;
  gsize dim; /* of a row */
  /* ids are `n_copies` copies of n_elems / dim / n_copies ids; 0: they are below `dim` */
  gsize n_copies;
  gdouble (*bytes) (const TpsDeviceWork *work, const TpsDeviceCase *what);
  void (*enqueue) (const TpsDeviceWork *work, const TpsDeviceCase *what);
  gdouble to_reach;       /* required fraction of the copy's rate; 0 = none */
  gdouble tolerance;      /* relative; 0 = the bits must be the CPU's */
  gdouble bytes_per_elem; /* if bytes is tps_device_case_bytes_per_elem() */
  TpsOptimizerKind optimizer;
  gdouble momentum;
};

/* Returns all cases; the first is the copy. `n_cases` may be NULL. Static. Thread: any. */
const TpsDeviceCase *tps_device_cases_get (guint *n_cases);

/* Returns the number of ids of the case, which are in [0, this). */
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
