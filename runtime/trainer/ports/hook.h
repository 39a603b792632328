/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Communication hooks: what happens to a bucket's gradient when it is complete.
 *
 * A hook is given one call for each bucket and step, starts the communication and returns. When the
 * communication is complete, tps_bucket_call_finish() must be called once, from any thread,
 * possibly before the hook has returned. Hooks of one trainer are called in the order of the bucket
 * numbers, also by trainers without data in this step, so that collectives meet.
 *
 * The building blocks at the end are what the built-in hooks are made of.
 */

#pragma once

#include "runtime/trainer/ports/exchange.h"
#include "runtime/trainer/ports/process_group.h"
#include "runtime/base/metrics.h"

G_BEGIN_DECLS

/* How much longer than the round itself a caller waits for the answer that ends it, so that the
 * answer which names the missing wins over the bare time-out of the caller. */
#define TPS_HOOK_GRACE_NS (G_GINT64_CONSTANT (500) * 1000 * 1000)

typedef struct TpsHookState TpsHookState;

/* One entry of the hook state registry ("BasicHookState"). */
typedef struct
{
  const gchar *name;
  TpsHookState *(*create) (void);
  void (*free) (TpsHookState *state);
  /* Called at the start of every step. */
  void (*next_batch) (TpsHookState *state);
  /* The metric key of a bucket in this step; owned by the caller. */
  gchar *(*get_key) (const TpsHookState *state, guint bucket);
} TpsHookStateClass;

/* Implementations embed this as their first member. */
struct TpsHookState
{
  const TpsHookStateClass *klass;
  gint64 batch_number; /* -1 before the first step; grows over all epochs of a pass */
};

/* What a hook works with; the same for all calls of a pass. All borrowed. */
typedef struct
{
  TpsHookState *state;
  TpsMetrics *metrics;
  TpsExchange *exchange;     /* NULL unless the hook needs servers */
  TpsProcessGroup *group;    /* NULL unless the hook needs a group */
  gboolean group_on_devices; /* all of its ranks have their buckets in a device's memory */
  const guint *owners;       /* [buckets]: number of the server that averages it */
  gboolean owned_by_block;   /* servers average blocks of trainers instead of all */
  gboolean delivers_sum;     /* all-reduce hooks: the sum instead of the mean */
  gint64 timeout_ns;         /* of one round */
} TpsHookContext;

typedef struct TpsBucketCall TpsBucketCall;

/* One bucket in one step. Everything stays valid and unchanged until tps_bucket_call_finish(). */
struct TpsBucketCall
{
  guint index;
  gboolean is_sparse;
  gsize n_elems; /* of the bucket */

  /* How the bucket travels: DENSE [n_elems], or SPARSE rows of a [rows, dim] matrix, with values of
   * `dtype`. FLOAT32 and of the bucket's own kind, unless compression (compress/compression.h) made
   * something else of it. */
  TpsGradientKind travels_as;
  TpsDType dtype;
  gint64 rows;
  gint64 dim;

  /* This trainer's part, which travels: DENSE, SPARSE (coalesced), or NONE with weight 0. */
  TpsGradient contribution;

  /* Where it travels dense: memory to reduce in, which `contribution` is a view of; a server hook
   * leaves it alone. FLOAT32: the bucket's own gradient memory, and one more element at its end for
   * the weight. Else [n_elems]. In a device's memory the weight stands there already, and zeros
   * where the contribution is NONE. */
  TpsTensor storage;

  /* Of a bucket in a device's memory (TpsHookReach): tensors are the device's, FLOAT32. NULL on the
   * host. */
  /* for what the hook does with the average, one thread at a time; users must wait for their own
   * work on it */
  TpsStream *stream;
  TpsEvent *ready;     /* the contribution is complete when this is reached; NULL = it is */
  gfloat *host_weight; /* [1], page-locked, for the hook */

  /* Where the result goes, as it travelled; called once. `reduced` is the receiver's to keep, NULL
   * on error. */
  void (*done) (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
  gpointer user_data;
};

/* Exactly once for each call. Moves `reduced` away; it is NULL exactly if there is an error.
 * Thread: any. */
void tps_bucket_call_finish (TpsBucketCall *call, TpsGradient *reduced, const GError *error);

typedef enum
{
  TPS_HOOK_NEEDS_SERVERS = 1 << 0,
  TPS_HOOK_NEEDS_GROUP = 1 << 1,
} TpsHookNeeds;

/* Where a hook can work with a dense bucket of a device's memory. */
typedef enum
{
  TPS_HOOK_REACH_HOST = 0, /* on a copy in host memory; the average is copied back */
  /* in the device's memory, when it is complete; the average may lie on either side */
  TPS_HOOK_REACH_DEVICE,
  /* there, before it is complete: the hook waits for call->ready on a stream of its own */
  TPS_HOOK_REACH_STREAM,
} TpsHookReach;

/* One entry of the hook registry. */
typedef struct
{
  const gchar *name;
  guint needs; /* TpsHookNeeds */
  /* Called on the training thread, of buckets of a device on a thread that waits for them; must not
   * block for long. */
  void (*reduce) (const TpsHookContext *context, TpsBucketCall *call);
  /* Optional: NULL means REACH_HOST. Asked on the same thread just before reduce(), of dense
   * FLOAT32 buckets in a device's memory. Buckets of rows, and compressed ones, always travel
   * through the host. */
  TpsHookReach (*get_reach) (const TpsHookContext *context, const TpsBucketCall *call);
} TpsHook;

/* Built-in: "allreduce_hook", "hybrid_hook", "rpc_hook", "sparse_rpc_hook". Find: NULL with
 * NOT_FOUND, the message lists the known names. What is registered must stay; before any trainer
 * runs. Lists: static strings, NULL at the end, in an array owned by the caller (g_free). */
const TpsHook *tps_hook_find (const gchar *name, GError **error);
void tps_hook_register (const TpsHook *hook);
const gchar **tps_hook_list (void);

/* Built-in: "BasicHookState". */
const TpsHookStateClass *tps_hook_state_class_find (const gchar *name, GError **error);
void tps_hook_state_class_register (const TpsHookStateClass *klass);
const gchar **tps_hook_state_class_list (void);

/* Metric types of the built-in hooks. */
#define TPS_METRIC_HOOK_FUTURE "hook_future_metric"
#define TPS_METRIC_HOOK_C10D "hook_c10d_metric"

/* For get_reach(): of tps_hook_reduce_with_server() and of tps_hook_all_reduce_dense(). */
TpsHookReach tps_hook_get_server_reach (const TpsHookContext *context, const TpsBucketCall *call);
TpsHookReach tps_hook_get_all_reduce_reach (const TpsHookContext *context,
                                            const TpsBucketCall *call);

/* Sends the bucket to the server that owns it; the result is the server's answer, whose buffers are
 * not copied. Metric: hook_future_metric, rpc_dense or rpc_sparse. */
void tps_hook_reduce_with_server (const TpsHookContext *context, TpsBucketCall *call);

/* All-reduces a dense bucket in place; the result is the bucket's storage. The weight travels as an
 * extra element, of half floats beside them. One that travels as rows goes the way of
 * tps_hook_all_reduce_sparse(). The same bits on all ranks. Metric: hook_future_metric,
 * <backend>_dense_allreduce. */
void tps_hook_all_reduce_dense (const TpsHookContext *context, TpsBucketCall *call);

/* Gathers counts, ids and rows from all ranks, then adds them in rank order on the group's thread:
 * the same arithmetic as the averaging server's. Metric: `metric_type`, <backend>_sparse_allreduce
 * (of a dense bucket _dense_allreduce). */
void tps_hook_all_reduce_sparse (const TpsHookContext *context, TpsBucketCall *call,
                                 const gchar *metric_type);

G_END_DECLS
