/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The assignment of parameters to buckets; the gradients of a bucket travel together.
 *
 * Dense parameters are taken in reverse order and added to a bucket until it has reached its size,
 * which the last parameter may exceed. The first bucket is small, so that communication starts
 * early. A sparse parameter has a bucket of its own. Buckets are numbered in the order in which the
 * backward pass completes them. The layout is valid from step 0 on and never changes, so a bucket's
 * number keeps its meaning. (PyTorch rebuilds its layout after the first step.)
 *
 * The elements of a bucket are packed without gaps in the order in which the parameters were taken,
 * which is the order of the backward pass.
 */

#pragma once

#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

typedef struct
{
  gboolean is_sparse;
  guint n_parameters;
  guint *parameters; /* their indices, in packing order */
  gsize n_elems;     /* of all parameters; a sparse parameter counts as its whole matrix */
} TpsBucket;

/* The place of one parameter. */
typedef struct
{
  guint bucket;
  gsize offset; /* in elements from the bucket's start */
} TpsBucketPlace;

typedef struct
{
  guint n_buckets;
  TpsBucket *buckets;
  guint n_parameters;
  TpsBucketPlace *places; /* indexed by parameter */
} TpsBucketLayout;

/* Computes the layout, which the caller must clear. `first_mib` and `cap_mib` are the sizes of the
 * first dense bucket and of the other dense buckets; a bucket with size 0 holds one parameter.
 * Errors: TPS_ERROR_INVALID_ARGUMENT (a size outside [0, 2^30]; a model without parameters). */
gboolean tps_bucket_layout_init (TpsBucketLayout *layout, const TpsParameter *parameters,
                                 guint n_parameters, gdouble first_mib, gdouble cap_mib,
                                 GError **error);
void tps_bucket_layout_clear (TpsBucketLayout *layout);

/* Returns the size in bytes of the uncompressed gradient of a dense bucket. */
static inline gsize
tps_bucket_n_bytes (const TpsBucket *bucket)
{
  return bucket->n_elems * sizeof (gfloat);
}

/* Returns a text that describes the layout with one line for each bucket and parameter. The texts
 * of two processes are equal if and only if their layouts are compatible. Owned by the caller. */
gchar *tps_bucket_layout_to_string (const TpsBucketLayout *layout, const TpsParameter *parameters);

G_END_DECLS
