/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Collectives among the trainers of one pass: a small table of functions, one implementation a
 * backend.
 *
 * Calls of one group must be made in the same order by all ranks; a group runs them one after the
 * other on a thread of its own, so that they overlap with what the caller does. After an error
 * other than INVALID_ARGUMENT the group is broken and every later call fails with
 * TPS_ERROR_GROUP_BROKEN.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/trainer/ports/store.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct TpsProcessGroup TpsProcessGroup;

/* Called exactly once, on the group's thread (a group of one rank has none: there before the call
 * returns); must not block on another collective of the group. */
typedef void (*TpsCollectiveDone) (gpointer user_data, const GError *error);

/* Half floats that are averaged. */
typedef struct
{
  TpsDType dtype; /* FLOAT16 or BFLOAT16 */
  /* [n_elems]: this rank's elements, then the average; not used where this rank's weight is 0 */
  gpointer data;
  gsize n_elems;
  gdouble weight;        /* of this rank's elements, at least 0; then the sum of all ranks' */
  gboolean delivers_sum; /* the weighted sum instead of the mean */
} TpsAverage;

typedef struct
{
  const gchar *name; /* "gloo", "nccl", "multi", "single" */

  /* Data is host memory; with "nccl" and "multi" it may be the device's memory too, on all ranks
   * the same. */

  /* Sums `n_elems` floats of all ranks in place. `data` stays borrowed until `done`. */
  void (*all_reduce_f32) (TpsProcessGroup *group, gfloat *data, gsize n_elems,
                          TpsCollectiveDone done, gpointer user_data);

  /* Averages in place with the averaging server's bits: weight x element is added up in FLOAT32 in
   * rank order, divided once and rounded once. Where all weights are 0 the data is undefined.
   * `average` stays borrowed until `done`. */
  void (*average) (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
                   gpointer user_data);

  /* Gathers `n_bytes` from each rank, which may differ: `counts` [size] is filled first with
   * everybody's n_bytes, then `gathered` is set to one buffer of host memory with all ranks' bytes
   * in rank order (owned by the caller). All outputs stay borrowed until `done`. */
  void (*all_gather_bytes) (TpsProcessGroup *group, gconstpointer data, gsize n_bytes,
                            gsize *counts, TpsBuffer **gathered, TpsCollectiveDone done,
                            gpointer user_data);

  /* Ends outstanding and later calls with GROUP_BROKEN. Thread: any. */
  void (*abort) (TpsProcessGroup *group);

  /* Waits until the other ranks have finished their collectives too (at most the group's time-out,
   * not at all after abort() or an error), ends what is outstanding, joins, frees. */
  void (*free) (TpsProcessGroup *group);

  /* Optional: NULL means the backend has no devices. As all_reduce_f32, of data that is what it
   * should be once `ready` is reached, which the group's own stream waits for: so the sum is under
   * way while the caller's streams go on. `ready` stays borrowed until `done`. */
  void (*all_reduce_f32_after) (TpsProcessGroup *group, TpsEvent *ready, gfloat *data,
                                gsize n_elems, TpsCollectiveDone done, gpointer user_data);

  /* Of a group that is several: the names of those that work in host memory and in a device's. NULL
   * = `name`. */
  const gchar *host_name, *device_name;
} TpsProcessGroupOps;

/* Implementations embed this as their first member. */
struct TpsProcessGroup
{
  const TpsProcessGroupOps *ops;
  guint rank;
  guint size;
};

typedef struct
{
  guint rank;
  guint size;
  TpsStore *store;     /* borrowed until the constructor returns; not needed where size is 1 */
  const gchar *prefix; /* of this group's keys; a new one for every group */
  gint64 timeout_ns;   /* for joining and for each collective */
  const gchar *host; /* address of this process that the other ranks can reach; NULL = 127.0.0.1 */
  /* Ports that the group listens on while it is joined, one for each other rank; 0 = any. NCCL
   * chooses its own. */
  guint16 first_port, last_port;

  TpsDevice
      *device; /* of "nccl" and "multi"; NULL = the CUDA device of number rank modulo their count */

  gboolean no_shared_memory; /* sums go through sockets even where all ranks are on one machine */

  /* Optional: asked again and again while joining; TRUE ends it with ABORTED. */
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsProcessGroupOptions;

/* Whether `backend` is a known name, usable here or not. Errors: NOT_FOUND, the message lists the
 * known ones. */
gboolean tps_process_group_check_backend (const gchar *backend, GError **error);

/* Whether this machine has what groups of several ranks need. Loads libraries of devices. Errors:
 * NOT_FOUND (unknown backend, or "nccl" without a CUDA device), UNAVAILABLE (no NCCL on this
 * machine). */
gboolean tps_process_group_check_usable (const gchar *backend, GError **error);

/* `backend`: "gloo"; "nccl"; "multi", which is NCCL for a device's memory and Gloo for the host's,
 * or Gloo alone where a rank has no device or no NCCL; for size 1 and without a device anything.
 * Blocks until all ranks have joined. Errors: NOT_FOUND (unknown backend, or "nccl" without a CUDA
 * device: the message says which and why), UNAVAILABLE (no NCCL on this machine), DEADLINE_EXCEEDED
 * (naming a rank that has not come), ABORTED (cancelled), those of the store, GROUP_BROKEN. */
TpsProcessGroup *tps_process_group_new (const gchar *backend, const TpsProcessGroupOptions *options,
                                        GError **error);

G_END_DECLS
