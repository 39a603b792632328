/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Communication hooks: the communication of a bucket's gradient after it is complete.
 *
 * A hook is called once for each bucket and step, starts the communication and returns. When the
 * communication is complete, tps_bucket_call_finish() must be called once, from any thread,
 * possibly before the hook has returned. Hooks of one trainer are called in the order of the bucket
 * numbers. Trainers without data in a step call them too, because collectives need all ranks.
 */

#pragma once

#include <thriftps/client.h>

#include "runtime/trainer/ports/process_group.h"
#include "runtime/base/metrics.h"
#include "runtime/base/registry.h"
#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* A caller's timeout must exceed the timeout of the round by this time. Then the reply that names
 * the missing trainers arrives before the caller's own timeout. */
#define TPS_HOOK_GRACE_NS (G_GINT64_CONSTANT (500) * 1000 * 1000)

typedef struct TpsHookState TpsHookState;

/* An entry of the hook state registry ("BasicHookState"). */
typedef struct
{
  const gchar *name;
  /* Creates a state before its first step, owned by the caller. */
  TpsHookState *(*create) (void);
  void (*free) (TpsHookState *state);
  /* Called at the start of every step. */
  void (*next_batch) (TpsHookState *state);
  /* Returns the metric key of a bucket in this step; owned by the caller. */
  gchar *(*get_key) (const TpsHookState *state, guint bucket);
} TpsHookStateClass;

/* Implementations embed this struct as their first member. */
struct TpsHookState
{
  const TpsHookStateClass *klass;
  gint64 batch_number; /* -1 before the first step; increases over all epochs of a pass */
};

/* A part of a bucket that a server averages in a separate round. Its units are elements if the
 * bucket travels dense, and rows if it travels as rows. */
typedef struct
{
  guint server;     /* number of the server that averages the piece */
  gint32 param_loc; /* of the piece's round */
  gint64 first_unit;
  gint64 n_units;
} TpsPiece;

/* The pieces of a bucket, in order and without gaps. A bucket with one piece travels as a whole. */
typedef struct
{
  const TpsPiece *pieces; /* [n_pieces], borrowed */
  guint n_pieces;         /* >= 1 */
} TpsRoute;

/* The context of a hook, shared by all calls of a pass. All members are borrowed. */
typedef struct
{
  TpsHookState *state;
  TpsMetrics *metrics;
  TpsExchange *exchange;     /* NULL unless the hook needs servers */
  TpsProcessGroup *group;    /* NULL unless the hook needs a group */
  gboolean group_on_devices; /* the buckets of all its ranks are in device memory */
  const TpsRoute *routes;    /* [n_buckets]: the pieces of each bucket; NULL without servers */
  gboolean owned_by_block;   /* servers average blocks of trainers instead of all trainers */
  gboolean delivers_sum;     /* all-reduce hooks: deliver the sum instead of the mean */
  gint64 timeout_ns;         /* of one round */
} TpsHookContext;

typedef struct TpsBucketCall TpsBucketCall;

/* The call for one bucket in one step. All members stay valid and unchanged until
 * tps_bucket_call_finish(). */
struct TpsBucketCall
{
  guint index;
  gboolean is_sparse;
  gsize n_elems; /* of the bucket */

  /* The form in which the bucket travels: DENSE [n_elems], or SPARSE rows of a [rows, dim] matrix,
   * with values of `dtype`. Without compression (compress/compression.h), the bucket travels as
   * FLOAT32 and in its own kind. */
  TpsGradientKind travels_as;
  TpsDType dtype;
  gint64 rows;
  gint64 dim;
  /* The bytes of a contribution on the wire: an estimate for the division of work, equal on all
   * trainers. For rows it is an upper limit, unless the compression provides a better estimate. */
  gint64 n_wire_bytes;

  /* This trainer's contribution: DENSE, SPARSE (coalesced), or NONE with weight 0. */
  TpsGradient contribution;

  /* Memory for a reduction in place, if the bucket travels dense; `contribution` is a view of this
   * memory. Server hooks must not change the memory. FLOAT32: the bucket's own gradient memory,
   * with one more element at its end for the weight. Other types: [n_elems]. In device memory the
   * weight is already set, and the elements are zero if the contribution is NONE. */
  TpsTensor storage;

  /* The next three members are for a bucket that the hook uses in device memory (TpsHookReach); its
   * tensors are FLOAT32 in this memory. They are NULL for a bucket in host memory. */
  /* For the hook's work on the average. A user of the stream must wait for its own work on it.
   * Thread: one at a time. */
  TpsStream *stream;
  TpsEvent *ready;     /* reached when the contribution is complete; NULL = it is complete */
  gfloat *host_weight; /* [1], page-locked, for the hook */

  /* Receives the result, in the form in which the bucket travelled, or NONE if there is nothing to
   * apply. Called once. The callee owns `reduced`, which is NULL on error. */
  void (*done) (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
  /* Receives an error before the end of a call that will fail with it. The callee may then cancel
   * the exchange and the group, which ends the rest of the call. */
  void (*failing) (TpsBucketCall *call, const GError *error);
  gpointer user_data;
};

/* Ends a call. Must be called exactly once for each call. Exactly one of `reduced` and `error` must
 * be NULL. Moves `reduced` away; `error` is borrowed. Thread: any. */
static inline void
tps_bucket_call_finish (TpsBucketCall *call, TpsGradient *reduced, const GError *error)
{
  g_assert ((reduced == NULL) == (error != NULL));
  call->done (call, reduced, error);
}

typedef enum
{
  TPS_HOOK_NEEDS_SERVERS = 1 << 0,
  TPS_HOOK_NEEDS_GROUP = 1 << 1,
} TpsHookNeeds;

/* The memory in which a hook can use a dense bucket that lies in device memory. */
typedef enum
{
  TPS_HOOK_REACH_HOST = 0, /* a copy in host memory; the average is copied back */
  /* device memory, after the bucket is complete; the average may lie in either memory */
  TPS_HOOK_REACH_DEVICE,
  /* device memory, even before the bucket is complete: the hook waits for call->ready on a stream
   * of its own */
  TPS_HOOK_REACH_STREAM,
} TpsHookReach;

/* An entry of the hook registry. */
typedef struct
{
  const gchar *name;
  guint needs; /* TpsHookNeeds */
  /* Starts the communication. Thread: the training thread or, for buckets of a device, the staging
   * thread. Must not block for long. */
  void (*reduce) (const TpsHookContext *context, TpsBucketCall *call);
  /* Returns the memory in which reduce() will use the bucket. Optional: NULL means REACH_HOST.
   * Called on the same thread just before reduce(), for dense FLOAT32 buckets in device memory.
   * Buckets of rows and compressed buckets always travel through the host. */
  TpsHookReach (*get_reach) (const TpsHookContext *context, const TpsBucketCall *call);
  /* Optional. Returns host memory for call->storage from which reduce() sends the bucket without a
   * copy. `current` is the present memory of the storage; the result is a new reference to it if
   * the storage should stay there. The result is owned by the caller, and NULL if there is no
   * suitable memory now. Must not block. Called between steps, on the training thread, for dense
   * buckets in host memory that are not compressed. */
  TpsBuffer *(*get_memory) (const TpsHookContext *context, const TpsBucketCall *call,
                            TpsBuffer *current);
} TpsHook;

/* Built-in: "allreduce_hook", "hybrid_hook", "rpc_hook", "sparse_rpc_hook". */
TPS_DECLARE_REGISTRY (TpsHook, tps_hook);

/* Built-in: "BasicHookState". */
TPS_DECLARE_REGISTRY (TpsHookStateClass, tps_hook_state_class);

/* Metric types of the built-in hooks. */
#define TPS_METRIC_HOOK_FUTURE "hook_future_metric"
#define TPS_METRIC_HOOK_C10D "hook_c10d_metric"

G_END_DECLS
