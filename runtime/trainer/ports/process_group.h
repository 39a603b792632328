/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Collectives among the trainers of one pass: a table of functions, with one implementation for
 * each backend.
 *
 * All ranks must make the calls of a group in the same order. A group runs them one after another
 * on a thread of its own, so that they overlap with the caller's work. After an error other than
 * INVALID_ARGUMENT the group is broken: every later call fails with TPS_ERROR_GROUP_BROKEN.
 */

#pragma once

#include <thriftps/client.h>

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct TpsProcessGroup TpsProcessGroup;

/* Receives the end of a collective. Called exactly once, on the group's thread, or before the
 * collective returns if the group has no thread ("single"). Must not block on another collective of
 * the group. */
typedef void (*TpsCollectiveDone) (gpointer user_data, const GError *error);

/* Data to be averaged. */
typedef struct
{
  TpsDType dtype; /* FLOAT16, BFLOAT16 or, if the group averages_f32, FLOAT32 */
  /* [n_elems]: this rank's elements, then the average; ignored as input if this rank's weight is
   * 0 */
  gpointer data;
  gsize n_elems;
  gdouble weight;        /* of this rank's elements, at least 0; then the sum over all ranks */
  gboolean delivers_sum; /* the weighted sum instead of the mean */
} TpsAverage;

typedef struct
{
  const gchar *name; /* "gloo", "nccl", "multi", "single" */

  /* Collectives. Data must be in host memory. With "nccl" and "multi" they may instead be in device
   * memory, but then on all ranks. */

  /* Sums `n_elems` floats of all ranks in place. `data` stays borrowed until `done`. */
  void (*all_reduce_f32) (TpsProcessGroup *group, gfloat *data, gsize n_elems,
                          TpsCollectiveDone done, gpointer user_data);

  /* Averages in place with the bits of the averaging server: weight x element is added in FLOAT32
   * in rank order, divided once and rounded once. If all weights are 0, the data are undefined.
   * `average` stays borrowed until `done`. */
  void (*average) (TpsProcessGroup *group, TpsAverage *average, TpsCollectiveDone done,
                   gpointer user_data);

  /* Gathers `n_bytes` from each rank; the sizes may differ. First, `counts` [size] receives the
   * sizes of all ranks. Then `gathered` receives one buffer in host memory with the bytes of all
   * ranks in rank order, owned by the caller. `data` and all outputs stay borrowed until `done`. */
  void (*all_gather_bytes) (TpsProcessGroup *group, gconstpointer data, gsize n_bytes,
                            gsize *counts, TpsBuffer **gathered, TpsCollectiveDone done,
                            gpointer user_data);

  /* Ends calls in flight and later calls with GROUP_BROKEN. Thread: any. */
  void (*abort) (TpsProcessGroup *group);

  /* Waits until the other ranks have finished their collectives too (at most for the group's
   * timeout, and not after abort() or an error), ends calls in flight, joins the thread and frees
   * the group. */
  void (*free) (TpsProcessGroup *group);

  /* As all_reduce_f32(), but for data in device memory that are complete when `ready` is reached.
   * Optional: NULL means that the backend does not support devices. The group's own stream waits
   * for `ready`, so the caller's streams continue meanwhile. `ready` stays borrowed until
   * `done`. */
  void (*all_reduce_f32_after) (TpsProcessGroup *group, TpsEvent *ready, gfloat *data,
                                gsize n_elems, TpsCollectiveDone done, gpointer user_data);

  /* Returns host memory of `n_bytes` that all ranks map. If the data of all ranks lie in such
   * memory, they are summed and averaged in place, without copies. `current` is the present memory
   * of the data or NULL; if all ranks already map it, the result is a new reference to it. The
   * result is owned by the caller and may outlive the group. After an error, other ranks may write
   * to it until they detect the error. Returns NULL if ranks cannot share memory or have none left,
   * or if shared memory would not be faster for data of this size. Thread: any. Optional: NULL
   * means that ranks never share memory. */
  TpsBuffer *(*get_memory) (TpsProcessGroup *group, gsize n_bytes, TpsBuffer *current);

  /* TRUE if average() also accepts FLOAT32, in host memory. */
  gboolean averages_f32;

  /* The names of the backends that a composite group uses for host memory and for device memory,
   * for metrics. NULL = `name`. */
  const gchar *host_name, *device_name;
} TpsProcessGroupOps;

/* Implementations embed this struct as their first member. */
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
  TpsStore *store;     /* borrowed until the constructor returns; may be NULL if size is 1 */
  const gchar *prefix; /* of this group's keys; must be unique for every group */
  gint64 timeout_ns;   /* for joining and for each collective */
  const gchar *host;   /* the address of this process for the other ranks; NULL = 127.0.0.1 */
  /* Ports that the group listens on while ranks join, one for each other rank; 0 = any. NCCL
   * chooses its own ports. */
  guint16 first_port, last_port;

  /* For "nccl" and "multi". NULL = the CUDA device whose number is the rank modulo the number of
   * CUDA devices. */
  TpsDevice *device;

  gboolean no_shared_memory; /* sums use sockets even if all ranks are on one machine */

  /* Optional: called repeatedly while joining; TRUE ends the join with ABORTED. */
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsProcessGroupOptions;

/* Returns TRUE if `backend` is a known name, even if this machine cannot use the backend. Errors:
 * NOT_FOUND; the message lists the known names. */
gboolean tps_process_group_check_backend (const gchar *backend, GError **error);

/* Returns TRUE if groups of `backend` with several ranks can be created on this machine. For
 * "nccl", loads the device library. Errors: NOT_FOUND (unknown backend, or "nccl" without a CUDA
 * device), UNAVAILABLE (no NCCL on this machine). */
gboolean tps_process_group_check_usable (const gchar *backend, GError **error);

/* Creates a group, owned by the caller; blocks until all ranks have joined. `backend` is "gloo",
 * "nccl" or "multi". "multi" uses NCCL for device memory and Gloo for host memory, or Gloo alone if
 * a rank has no device or no NCCL. With size 1 and without a device, all backends are equivalent.
 * Errors: NOT_FOUND (unknown backend, or "nccl" without a CUDA device, with the reason),
 * UNAVAILABLE (no NCCL on this machine), DEADLINE_EXCEEDED (naming a rank that has not joined),
 * ABORTED (cancelled), INVALID_ARGUMENT (the options), those of the store, GROUP_BROKEN. */
TpsProcessGroup *tps_process_group_new (const gchar *backend, const TpsProcessGroupOptions *options,
                                        GError **error);

G_END_DECLS
