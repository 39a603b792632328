/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Cuts a contribution into pieces, and joins the averages of the pieces. Internal to this
 * folder. */

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

/* Initialises `slices` [route->n_pieces] with references to the parts of `contribution`. Row ids
 * stay those of the whole matrix. A contribution without data has slices without data. The caller
 * must clear the slices, even after an error. Errors: INTERNAL if row ids do not ascend. */
gboolean tps_bucket_pieces_cut (const TpsGradient *contribution, const TpsRoute *route,
                                TpsGradient *slices, GError **error);

/* The averages of the pieces of a bucket. */
typedef struct
{
  const TpsBucketCall *call; /* borrowed */
  const TpsRoute *route;     /* borrowed */
  TpsTensor dense;           /* of a bucket that travels dense: all elements */
  TpsGradient *averages;     /* [route->n_pieces]; of dense pieces without their elements */
} TpsBucketPieces;

/* Divides the bucket of `call` into pieces by `route`; both are borrowed until clear(). */
void tps_bucket_pieces_init (TpsBucketPieces *self, const TpsBucketCall *call,
                             const TpsRoute *route);
void tps_bucket_pieces_clear (TpsBucketPieces *self);

/* Takes over the average of piece `index`; copies its elements if the bucket travels dense. Errors:
 * INTERNAL naming the bucket if the average does not match the piece. Thread: any; at the same time
 * for different pieces. */
gboolean tps_bucket_pieces_add (TpsBucketPieces *self, guint index, TpsGradient *average,
                                GError **error);

/* Moves the average of the bucket to `average`. All pieces must have been added. Errors: INTERNAL
 * if some averages have data and others have none. */
gboolean tps_bucket_pieces_join (TpsBucketPieces *self, TpsGradient *average, GError **error);

G_END_DECLS
