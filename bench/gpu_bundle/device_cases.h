/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The operations that device_ops measures, with the minimum number of bytes that each operation
 * must move. The results are in `a`. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The arrays of one case. `a`, `b` and `state` repeat their first TPS_DEVICE_PERIOD elements, so
 * results of any size follow from results of a small size. */
typedef struct
{
  TpsDevice *device;
  TpsStream *stream;
  /* A power of two: multiplication by an odd factor then permutes the rows. */
  gsize n_elems;
  TpsBuffer *a, *b;      /* float [n_elems] each, values above 0 */
  TpsBuffer *state;      /* float [2 * n_elems], values above 0 */
  TpsBuffer *halves;     /* [n_elems], `b` in the dtype of the case; NULL for FLOAT32 */
  TpsBuffer *ids;        /* gint64 [rows] */
  TpsBuffer *found_ids;  /* gint64 [rows + 1]; the last element is the number of ids found */
  TpsBuffer *loss;       /* gdouble [1] */
  gsize n_different_ids; /* number of different values in `ids` */
} TpsDeviceWork;

/* the period of the arrays, in elements */
#define TPS_DEVICE_PERIOD ((gsize) 1 << 11)

/* The number of elements of the check on the CPU, and the period of ids. */
#define TPS_DEVICE_CHECK_ELEMS ((gsize) 1 << 18)

/* The ids of a case. */
typedef enum
{
  TPS_DEVICE_IDS_NONE,
  TPS_DEVICE_IDS_SPREAD,  /* each of n_elems / dim / n_copies ids occurs n_copies times */
  TPS_DEVICE_IDS_ZIPF,    /* ids of n_elems / dim rows with a Zipf distribution, permuted */
  TPS_DEVICE_IDS_CLASSES, /* classes below `dim` */
} TpsDeviceIds;

/* The relation between the result of many elements and the result of TPS_DEVICE_CHECK_ELEMS. */
typedef enum
{
  TPS_DEVICE_GROWS_REPEATED, /* the result is repeated */
  TPS_DEVICE_GROWS_AS_MEAN,  /* repeated, and divided by the growth */
  TPS_DEVICE_GROWS_AS_SUM,   /* multiplied by the growth, with rounding */
  TPS_DEVICE_GROWS_FREELY,   /* no relation: the CPU must compute the result */
  TPS_DEVICE_GROWS_TOO_FAST, /* no relation, and too much work for the CPU: not checked */
} TpsDeviceGrowth;

/* A measured operation. Strings are static. */
typedef struct TpsDeviceCase TpsDeviceCase;
struct TpsDeviceCase
{
  const gchar *name;
  gsize dim;      /* floats of a row */
  gsize n_copies; /* occurrences of each id; 0 counts as 1 */
  /* minimum number of bytes to move */
  gdouble (*bytes) (const TpsDeviceWork *work, const TpsDeviceCase *entry);
  /* runs the operation on work->stream */
  void (*enqueue) (const TpsDeviceWork *work, const TpsDeviceCase *entry);
  /* Returns the number of floats of `a` that the operation writes; NULL = all. */
  gsize (*n_results) (const TpsDeviceWork *work, const TpsDeviceCase *entry);
  gdouble to_reach;       /* required fraction of the rate of the copy; 0 = none */
  gdouble tolerance;      /* relative; 0 = the bits must be equal to those of the CPU */
  gdouble bytes_per_elem; /* for bytes_of_elems(): all elements cost the same */
  gdouble momentum;       /* of SGD */
  TpsDeviceIds ids;
  TpsDeviceGrowth growth;
  TpsDType dtype; /* of gradients, averages or rows of tables; 0 = FLOAT32 */
  /* The first half of the memory of `a` contains rows of the dtype, [n_elems]. */
  gboolean has_half_rows;
  gboolean is_stochastic; /* updated rows are rounded stochastically */
  gboolean finds_ids;     /* writes the different ids, and their number, to `found_ids` */
  gboolean has_loss;      /* writes `loss` */
  TpsOptimizerKind optimizer;
};

/* Returns all cases; the first case is the copy. `n_cases` may be NULL. Static. Thread: any. */
const TpsDeviceCase *tps_device_cases_get (guint *n_cases);

/* Returns the number of ids that a case with `n_elems` elements needs. */
gsize tps_device_case_get_n_ids (gsize n_elems, const TpsDeviceCase *entry);

/* Returns the number of floats that the operation writes to `a`. */
gsize tps_device_case_get_n_results (const TpsDeviceWork *work, const TpsDeviceCase *entry);

/* Returns the number of floats that the operation updates, at the start of `state`. */
gsize tps_device_case_get_n_state (const TpsDeviceWork *work, const TpsDeviceCase *entry);

/* The rule ids[i] = i % period * factor % n_different. If there are ids, `period` and `n_different`
 * are above 0. */
typedef struct
{
  gsize period, factor, n_different;
} TpsDeviceIdRule;

/* Sets `*rule` to the rule of the ids of a case. Returns FALSE if the ids are random, or if the
 * case has no ids. */
gboolean tps_device_case_get_id_rule (gsize n_elems, const TpsDeviceCase *entry,
                                      TpsDeviceIdRule *rule);

/* Fills `ids` [tps_device_case_get_n_ids()]. Returns the number of different ids. */
gsize tps_device_case_fill_ids (gsize n_elems, const TpsDeviceCase *entry, gint64 *ids);

/* Return the data of a buffer as an array of floats, or of ids. */
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
