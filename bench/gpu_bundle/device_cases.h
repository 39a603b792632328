/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations measured by device_ops, each with the minimum number of bytes that it must move.
 * Results are written to `a`. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Arrays of one case. `a`, `b` and `state` repeat their first TPS_DEVICE_PERIOD elements, so that
 * results of any size are known from those of a small size. */
typedef struct
{
  TpsDevice *device;
  TpsStream *stream;
  /* a power of two, so that multiplying by any odd factor permutes rows */
  gsize n_elems;
  TpsBuffer *a, *b;      /* float [n_elems] each, above 0 */
  TpsBuffer *state;      /* float [2 * n_elems], above 0 */
  TpsBuffer *halves;     /* [n_elems]: `b`, as the case's dtype; NULL for FLOAT32 */
  TpsBuffer *ids;        /* gint64 [rows] */
  TpsBuffer *found_ids;  /* gint64 [rows + 1]; the last one is the number of ids found */
  TpsBuffer *loss;       /* gdouble [1] */
  gsize n_different_ids; /* in `ids` */
} TpsDeviceWork;

#define TPS_DEVICE_PERIOD ((gsize) 1 << 11)

/* The elements of the check on the CPU. Ids repeat their pattern within so many elements. */
#define TPS_DEVICE_CHECK_ELEMS ((gsize) 1 << 18)

typedef enum
{
  TPS_DEVICE_IDS_NONE,
  TPS_DEVICE_IDS_SPREAD,  /* each of n_elems / dim / n_copies ids, n_copies times */
  TPS_DEVICE_IDS_ZIPF,    /* ids of n_elems / dim rows with a Zipf distribution, spread */
  TPS_DEVICE_IDS_CLASSES, /* below `dim` */
} TpsDeviceIds;

/* How the result of many elements follows from that of TPS_DEVICE_CHECK_ELEMS. */
typedef enum
{
  TPS_DEVICE_GROWS_REPEATED,
  TPS_DEVICE_GROWS_AS_MEAN,  /* also divided by the growth */
  TPS_DEVICE_GROWS_AS_SUM,   /* also multiplied by the growth, with rounding */
  TPS_DEVICE_GROWS_FREELY,   /* the CPU must compute it */
  TPS_DEVICE_GROWS_TOO_FAST, /* and cannot in reasonable time: not checked */
} TpsDeviceGrowth;

typedef struct TpsDeviceCase TpsDeviceCase;
struct TpsDeviceCase
{
  const gchar *name;
  gsize dim;      /* of a row */
  gsize n_copies; /* of each id; 0 counts as 1 */
  gdouble (*bytes) (const TpsDeviceWork *work, const TpsDeviceCase *entry);
  void (*enqueue) (const TpsDeviceWork *work, const TpsDeviceCase *entry);
  /* Returns the number of floats of `a` that the operation writes; NULL: all. */
  gsize (*n_results) (const TpsDeviceWork *work, const TpsDeviceCase *entry);
  gdouble to_reach;       /* required fraction of the copy's rate; 0 = none */
  gdouble tolerance;      /* relative; 0 = the bits must be the CPU's */
  gdouble bytes_per_elem; /* if all elements cost the same */
  gdouble momentum;
  TpsDeviceIds ids;
  TpsDeviceGrowth growth;
  TpsDType dtype; /* of gradients or averages, or of the rows of tables; 0 = FLOAT32 */
  /* The first half of the memory of `a` holds rows of the dtype, [n_elems]. */
  gboolean has_half_rows;
  gboolean is_stochastic; /* the rounding of updated rows */
  gboolean finds_ids;     /* writes the different ids and their number to `found_ids` */
  gboolean has_loss;      /* writes `loss` */
  TpsOptimizerKind optimizer;
};

/* Returns all cases; the first is the copy. `n_cases` may be NULL. Static. Thread: any. */
const TpsDeviceCase *tps_device_cases_get (guint *n_cases);

/* Returns the number of ids that the case needs. */
gsize tps_device_case_get_n_ids (gsize n_elems, const TpsDeviceCase *entry);

/* Returns the number of floats of `a` that the operation writes. */
gsize tps_device_case_get_n_results (const TpsDeviceWork *work, const TpsDeviceCase *entry);

/* Returns the number of floats of `state`, the first ones, that the operation updates. */
gsize tps_device_case_get_n_state (const TpsDeviceWork *work, const TpsDeviceCase *entry);

/* ids[i] = i % period * factor % n_different. If there are ids, `period` and `n_different` are
 * above 0. */
typedef struct
{
  gsize period, factor, n_different;
} TpsDeviceIdRule;

/* Sets *rule to the rule of the ids of a case. Returns FALSE if its ids are drawn at random, or if
 * it has none. */
gboolean tps_device_case_get_id_rule (gsize n_elems, const TpsDeviceCase *entry,
                                      TpsDeviceIdRule *rule);

/* Fills ids [tps_device_case_get_n_ids()]. Returns the number of different ids. */
gsize tps_device_case_fill_ids (gsize n_elems, const TpsDeviceCase *entry, gint64 *ids);

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
