/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Averages a bucket on its parameter servers, in one or more pieces. The exchange gets all pieces
 * at once and sends them in order. A server can then average and return the first pieces while it
 * receives later pieces.
 *
 * If one of several pieces fails, the failure is reported at once. The bucket fails after its last
 * piece has ended, because the exchange borrows the memory of the bucket until then. */

#include "runtime/trainer/hooks/server_reduce.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/hooks/bucket_pieces.h"

typedef struct ServerCall ServerCall;

typedef struct
{
  ServerCall *owner;
  guint index;
} PieceCall;

struct ServerCall
{
  const TpsHookContext *context;
  TpsBucketCall *call;
  const TpsRoute *route;
  gchar *key;
  TpsGradient average;    /* of a bucket that travels as a whole */
  TpsBucketPieces joined; /* of a bucket in several pieces */
  TpsGradient *slices;    /* [n_pieces]; NULL for a bucket that travels as a whole */
  PieceCall *pieces;      /* [n_pieces] */

  TpsMutex lock; /* guards the fields below */
  guint n_in_flight;
  GError *error; /* the first error */
};

static void
server_call_free (ServerCall *self)
{
  for (guint i = 0; self->slices != NULL && i < self->route->n_pieces; i++)
    tps_gradient_clear (&self->slices[i]);
  if (self->slices != NULL)
    tps_bucket_pieces_clear (&self->joined);
  g_free (self->slices);
  g_free (self->pieces);
  g_free (self->key);
  tps_gradient_clear (&self->average);
  g_clear_error (&self->error);
  tps_mutex_clear (&self->lock);
  g_free (self);
}

/* Returns TRUE if the error means that no trainer of the block has data. If servers average blocks
 * of trainers, a whole block may be without data in the last steps of an epoch. The server then
 * refuses to divide by a weight of 0. This is not a failure, because there is nothing to apply. */
static gboolean
is_block_without_data (const ServerCall *self, const GError *error)
{
  return self->context->owned_by_block && self->call->contribution.kind == TPS_GRADIENT_NONE
         && g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT);
}

static gboolean
take_average (ServerCall *self, guint index, TpsGradient *average, GError **error)
{
  if (self->slices != NULL)
    return tps_bucket_pieces_add (&self->joined, index, average, error);
  tps_gradient_move (&self->average, average);
  return TRUE;
}

/* Keeps and reports the first error. Must be called before piece_done() for the same piece, which
 * may free the call. */
static void
fail (ServerCall *self, const GError *error)
{
  gboolean is_first;

  tps_mutex_lock (&self->lock);
  is_first = self->error == NULL;
  if (is_first)
    self->error = g_error_copy (error);
  tps_mutex_unlock (&self->lock);
  if (is_first && self->slices != NULL)
    self->call->failing (self->call, error);
}

/* Ends the call after its last piece, and frees `self`. */
static void
finish (ServerCall *self)
{
  TpsBucketCall *call = self->call;
  g_auto (TpsGradient) average = { TPS_GRADIENT_NONE };
  g_autoptr (GError) error = g_steal_pointer (&self->error);

  /* The error is ignored: it means that the metrics were cleared in the meantime, while the
   * gradient is still valid. */
  tps_metrics_record_end (self->context->metrics, TPS_METRIC_HOOK_FUTURE, self->key, NULL);
  if (self->slices == NULL)
    tps_gradient_move (&average, &self->average);
  else if (error == NULL)
    tps_bucket_pieces_join (&self->joined, &average, &error);
  server_call_free (self);
  tps_bucket_call_finish (call, error == NULL ? &average : NULL, error);
}

static void
piece_done (ServerCall *self)
{
  gboolean is_last;

  tps_mutex_lock (&self->lock);
  is_last = --self->n_in_flight == 0;
  tps_mutex_unlock (&self->lock);
  if (is_last)
    finish (self);
}

static void
on_average (gpointer user_data, TpsGradient *average, const GError *error)
{
  const PieceCall *piece = user_data;
  ServerCall *self = piece->owner;
  g_auto (TpsGradient) nothing = { TPS_GRADIENT_NONE };
  g_autoptr (GError) mismatch = NULL;

  if (error != NULL && is_block_without_data (self, error))
    {
      average = &nothing;
      error = NULL;
    }
  if (error == NULL && !take_average (self, piece->index, average, &mismatch))
    error = mismatch;
  if (error != NULL)
    fail (self, error);
  piece_done (self);
}

TpsHookReach
tps_hook_get_server_reach (const TpsHookContext *context, const TpsBucketCall *call)
{
  TpsExchange *exchange = context->exchange;
  const TpsRoute *route = &context->routes[call->index];

  return route->n_pieces == 1 && exchange->ops->takes_device != NULL
                 && exchange->ops->takes_device (exchange, route->pieces[0].server,
                                                 call->stream->device)
             ? TPS_HOOK_REACH_DEVICE
             : TPS_HOOK_REACH_HOST;
}

/* Memory that is shared with one server is suitable only if all pieces of the bucket go to this
 * server. */
TpsBuffer *
tps_hook_get_server_memory (const TpsHookContext *context, const TpsBucketCall *call,
                            TpsBuffer *current)
{
  TpsExchange *exchange = context->exchange;
  const TpsRoute *route = &context->routes[call->index];

  for (guint i = 1; i < route->n_pieces; i++)
    if (route->pieces[i].server != route->pieces[0].server)
      return NULL;
  return exchange->ops->get_memory != NULL
             ? exchange->ops->get_memory (exchange, route->pieces[0].server,
                                          (gsize) tps_shape_n_bytes (&call->storage.shape), current)
             : NULL;
}

static void
send_piece (ServerCall *self, guint index, gint64 deadline_ns)
{
  const TpsHookContext *context = self->context;
  const TpsPiece *piece = &self->route->pieces[index];
  const TpsGradient *gradient = self->slices != NULL ? &self->slices[index]
                                                     : &self->call->contribution;

  self->pieces[index] = (PieceCall) { self, index };
  context->exchange->ops->average_gradient (
      context->exchange, piece->server, context->state->batch_number, piece->param_loc, gradient,
      deadline_ns, on_average, &self->pieces[index]);
}

static ServerCall *
server_call_new (const TpsHookContext *context, TpsBucketCall *call)
{
  ServerCall *self = g_new0 (ServerCall, 1);

  self->context = context;
  self->call = call;
  self->route = &context->routes[call->index];
  self->key = context->state->klass->get_key (context->state, call->index);
  self->pieces = g_new (PieceCall, self->route->n_pieces);
  self->n_in_flight = self->route->n_pieces;
  tps_mutex_init (&self->lock);
  return self;
}

static gboolean
cut (ServerCall *self, GError **error)
{
  if (self->route->n_pieces == 1)
    return TRUE;
  self->slices = g_new (TpsGradient, self->route->n_pieces);
  tps_bucket_pieces_init (&self->joined, self->call, self->route);
  return tps_bucket_pieces_cut (&self->call->contribution, self->route, self->slices, error);
}

void
tps_hook_reduce_with_server (const TpsHookContext *context, TpsBucketCall *call)
{
  ServerCall *self = server_call_new (context, call);
  guint n_pieces = self->route->n_pieces;
  gint64 deadline_ns = tps_clock_now_ns () + context->timeout_ns + TPS_HOOK_GRACE_NS;
  g_autoptr (GError) error = NULL;

  if (!cut (self, &error)
      || !tps_metrics_record_start (context->metrics, TPS_METRIC_HOOK_FUTURE, self->key,
                                    call->is_sparse ? "rpc_sparse" : "rpc_dense", &error))
    {
      server_call_free (self);
      tps_bucket_call_finish (call, NULL, error);
      return;
    }
  /* The reply to the last piece frees `self`, possibly before send_piece() returns. */
  for (guint i = 0; i < n_pieces; i++)
    send_piece (self, i, deadline_ns);
}
