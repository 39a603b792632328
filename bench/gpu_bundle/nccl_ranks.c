/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One rank of a process group on NCCL: sums, averages and gathers with known results, the time of a
 * large sum, and the loss of a rank. The program must be started once for each rank:
 *
 *   nccl_ranks --rank=0 --size=2 --store=FOLDER & nccl_ranks --rank=1 --size=2 --store=FOLDER
 *
 * Exit status: 0; 1 a result is wrong or a call fails; 2 bad flags; 3 no CUDA device or no NCCL. */

#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <thriftps/client.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/backend.h"
#include "runtime/device/device_library.h"
#include "runtime/trainer/ports/process_group.h"

/* A store whose keys are files in a folder, for ranks of one machine that have no server. */

#define PAUSE_US 2000

typedef struct
{
  TpsStore base;
  gchar *folder;
} FileStore;

/* Returns the path of a key. Slashes are replaced, because the key becomes the name of a file. */
static gchar *
dup_path (TpsStore *store, const gchar *key)
{
  g_autofree gchar *name = g_strdelimit (g_strdup (key), "/", '-');

  return g_build_filename (((FileStore *) store)->folder, name, NULL);
}

/* Writes a value by renaming a file, so a reader never finds a partial value. */
static gboolean
file_put (TpsStore *store, const gchar *key, GBytes *value, GError **error)
{
  g_autofree gchar *path = dup_path (store, key);
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (value, &n_bytes);

  return g_file_set_contents (path, data != NULL ? data : "", (gssize) n_bytes, error);
}

static GBytes *
file_get (TpsStore *store, const gchar *key, gint64 deadline_ns, GError **error)
{
  g_autofree gchar *path = dup_path (store, key);
  gchar *data;
  gsize n_bytes;

  while (!g_file_get_contents (path, &data, &n_bytes, NULL))
    {
      if (tps_clock_now_ns () >= deadline_ns)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED, "no %s", path);
          return NULL;
        }
      g_usleep (PAUSE_US);
    }
  return g_bytes_new_take (data, n_bytes);
}

/* Does nothing: the creator of the folder must remove it. */
static gboolean
file_remove (TpsStore *store, const gchar *prefix, GError **error)
{
  return TRUE;
}

static void
file_free (TpsStore *store)
{
  g_free (((FileStore *) store)->folder);
  g_free (store);
}

static const TpsStoreOps file_ops = {
  .put = file_put, .get = file_get, .remove = file_remove, .free = file_free
};

/* Creates a store. `folder` must exist; the path is copied. */
static TpsStore *
file_store_new (const gchar *folder)
{
  FileStore *store = g_new0 (FileStore, 1);

  store->base.ops = &file_ops;
  store->folder = g_strdup (folder);
  return &store->base;
}

#define TIMEOUT_NS G_GINT64_CONSTANT (20000000000) /* below the timeout of run_all.sh, 60 s */
#define LARGE_ELEMS ((gsize) 25 << 18)             /* 25 MiB of floats, the size of a bucket */
#define N_ROUNDS 20

typedef struct
{
  gint rank, size;
  gchar *store;
} Flags;

typedef struct
{
  TpsProcessGroup *group;
  TpsDevice *device;
  TpsStream *stream;
  guint n_wrong;
} Rank;

/* -- waiting for a collective -- */

typedef struct
{
  sem_t is_done;
  GError *error;
} Waiter;

static void
on_done (gpointer user_data, const GError *error)
{
  Waiter *waiter = user_data;

  waiter->error = error != NULL ? g_error_copy (error) : NULL;
  sem_post (&waiter->is_done);
}

/* Waits for the end of the collective. Returns FALSE with its error. */
static gboolean
waiter_wait (Waiter *waiter, GError **error)
{
  while (sem_wait (&waiter->is_done) != 0)
    ;
  sem_destroy (&waiter->is_done);
  if (waiter->error == NULL)
    return TRUE;
  g_propagate_error (error, waiter->error);
  return FALSE;
}

static gboolean
all_reduce (Rank *rank, gpointer data, gsize n_elems, GError **error)
{
  Waiter waiter = { 0 };

  sem_init (&waiter.is_done, 0, 0);
  rank->group->ops->all_reduce_f32 (rank->group, data, n_elems, on_done, &waiter);
  return waiter_wait (&waiter, error);
}

/* -- memory -- */

static gboolean
copy (Rank *rank, gpointer to, gconstpointer from, gsize n_bytes, GError **error)
{
  rank->device->ops->copy (rank->stream, to, from, n_bytes);
  return rank->device->ops->stream_sync (rank->stream, error);
}

static void
check (Rank *rank, gboolean is_right, const gchar *entry, gsize n_elems)
{
  printf ("rank %u: %-28s %10" G_GSIZE_FORMAT "  %s\n", rank->group->rank, entry, n_elems,
          is_right ? "right" : "WRONG");
  rank->n_wrong += is_right ? 0 : 1;
}

/* -- checks -- */

/* Sums whole numbers, whose sum does not depend on the order of additions. */
static gboolean
sum_values (Rank *rank, gsize n_elems, gboolean is_on_device, GError **error)
{
  gsize n_bytes = n_elems * sizeof (gfloat);
  g_autoptr (TpsBuffer) buffer = rank->device->ops->alloc (rank->device, n_bytes, error);
  g_autofree gfloat *values = g_new0 (gfloat, n_elems + 1);
  gdouble factor = rank->group->size * (rank->group->size + 1) / 2.0;
  gpointer data = values;
  gboolean is_right = TRUE;

  if (buffer == NULL)
    return FALSE;
  for (gsize i = 0; i < n_elems; i++)
    values[i] = (gfloat) ((rank->group->rank + 1) * (i % 1000));
  if (is_on_device)
    data = tps_buffer_get_data (buffer);
  if (is_on_device && !copy (rank, data, values, n_bytes, error))
    return FALSE;
  if (!all_reduce (rank, data, n_elems, error))
    return FALSE;
  if (is_on_device && !copy (rank, values, data, n_bytes, error))
    return FALSE;
  for (gsize i = 0; i < n_elems; i++)
    is_right = is_right && values[i] == (gfloat) (factor * (gdouble) (i % 1000));
  check (rank, is_right, is_on_device ? "sum on the device" : "sum in the host's memory", n_elems);
  return TRUE;
}

static guint16
half_bits (gfloat value)
{
  _Float16 half = (_Float16) value;
  guint16 bits;

  memcpy (&bits, &half, sizeof bits);
  return bits;
}

/* Averages rank + 1 with the weight rank + 1: a quotient of whole numbers, with known bits. */
static gboolean
average_halves (Rank *rank, gsize n_elems, GError **error)
{
  g_autofree guint16 *halves = g_new (guint16, n_elems + 1);
  guint size = rank->group->size;
  TpsAverage average = { .dtype = TPS_DTYPE_FLOAT16,
                         .data = halves,
                         .n_elems = n_elems,
                         .weight = rank->group->rank + 1.0 };
  gfloat sum = 0, weights = 0;
  gboolean is_right = TRUE;
  Waiter waiter = { 0 };

  for (gsize i = 0; i < n_elems; i++)
    halves[i] = half_bits ((gfloat) (rank->group->rank + 1));
  sem_init (&waiter.is_done, 0, 0);
  rank->group->ops->average (rank->group, &average, on_done, &waiter);
  if (!waiter_wait (&waiter, error))
    return FALSE;
  for (guint r = 1; r <= size; r++)
    {
      sum += (gfloat) (r * r);
      weights += (gfloat) r;
    }
  for (gsize i = 0; i < n_elems; i++)
    is_right = is_right && halves[i] == half_bits (sum / weights);
  check (rank, is_right && average.weight == (gdouble) weights, "average of half floats", n_elems);
  return TRUE;
}

/* Gathers n_elems + r bytes of the value r from each rank r. */
static gboolean
gather (Rank *rank, gsize n_elems, GError **error)
{
  guint size = rank->group->size;
  gsize n_bytes = n_elems + rank->group->rank;
  g_autofree guint8 *mine = g_malloc0 (n_bytes + 1);
  g_autofree gsize *counts = g_new0 (gsize, size);
  g_autoptr (TpsBuffer) all = NULL;
  const guint8 *at;
  gboolean is_right = TRUE;
  Waiter waiter = { 0 };

  memset (mine, (gint) rank->group->rank, n_bytes);
  sem_init (&waiter.is_done, 0, 0);
  rank->group->ops->all_gather_bytes (rank->group, mine, n_bytes, counts, &all, on_done, &waiter);
  if (!waiter_wait (&waiter, error))
    return FALSE;
  at = tps_buffer_get_data (all);
  for (guint r = 0; r < size; r++)
    {
      is_right = is_right && counts[r] == n_elems + r;
      for (gsize i = 0; i < counts[r]; i++)
        is_right = is_right && at[i] == r;
      at += counts[r];
    }
  check (rank, is_right, "gather", n_elems);
  return TRUE;
}

static int
compare_times (gconstpointer a, gconstpointer b)
{
  gint64 x = *(const gint64 *) a, y = *(const gint64 *) b;

  return (x > y) - (x < y);
}

/* Measures the sum of a bucket in device memory. */
static gboolean
measure (Rank *rank, GError **error)
{
  g_autoptr (TpsBuffer)
      buffer = rank->device->ops->alloc (rank->device, LARGE_ELEMS * sizeof (gfloat), error);
  gint64 times[N_ROUNDS];
  const guint middle = N_ROUNDS / 2;

  if (buffer == NULL)
    return FALSE;
  rank->device->ops->zero (rank->stream, tps_buffer_get_data (buffer),
                           LARGE_ELEMS * sizeof (gfloat));
  if (!rank->device->ops->stream_sync (rank->stream, error))
    return FALSE;
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      gint64 start = tps_clock_now_ns ();

      if (!all_reduce (rank, tps_buffer_get_data (buffer), LARGE_ELEMS, error))
        return FALSE;
      times[i] = tps_clock_now_ns () - start;
    }
  qsort (times, N_ROUNDS, sizeof times[0], compare_times);
  printf ("rank %u: sum of 25 MiB on the device, median of %d: %.3f ms\n", rank->group->rank,
          N_ROUNDS, (gdouble) times[middle] / 1e6);
  return TRUE;
}

/* Ends the last rank. The other ranks must notice the loss before their timeout. */
static void
lose_a_rank (Rank *rank)
{
  g_autoptr (GError) error = NULL;
  gfloat value = 1;
  gint64 start = tps_clock_now_ns ();
  gboolean is_told;

  if (rank->group->rank == rank->group->size - 1)
    _exit (rank->n_wrong > 0 ? 1 : 0);
  is_told = !all_reduce (rank, &value, 1, &error)
            && g_error_matches (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN);
  check (rank, is_told, "a rank is lost", 1);
  printf ("rank %u: after %.1f s: %s\n", rank->group->rank,
          (gdouble) (tps_clock_now_ns () - start) / 1e9, error != NULL ? error->message : "");
}

static gboolean
run_checks (Rank *rank, GError **error)
{
  static const gsize sizes[] = { 0, 1, 7, 1001, 3000001 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (!sum_values (rank, sizes[i], FALSE, error) || !sum_values (rank, sizes[i], TRUE, error)
        || !average_halves (rank, sizes[i], error) || !gather (rank, sizes[i], error))
      return FALSE;
  if (!measure (rank, error))
    return FALSE;
  if (rank->group->size > 1)
    lose_a_rank (rank);
  return TRUE;
}

/* -- start -- */

static gboolean
parse (Flags *flags, int *argc, char ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "rank", 0, 0, G_OPTION_ARG_INT, &flags->rank, "of this process (0)", "N" },
    { "size", 0, 0, G_OPTION_ARG_INT, &flags->size, "ranks (1)", "N" },
    { "store", 0, 0, G_OPTION_ARG_FILENAME, &flags->store, "an empty folder where they meet (.)",
      "FOLDER" },
    { 0 },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- one rank of a group on NCCL");

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;
  if (flags->size >= 1 && flags->rank >= 0 && flags->rank < flags->size)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--rank=%d --size=%d: expected a rank below the size", flags->rank, flags->size);
  return FALSE;
}

static gboolean
join (Rank *rank, const Flags *flags, TpsStore *store, GError **error)
{
  const GPtrArray *devices = tps_device_library_get ()->devices;
  TpsProcessGroupOptions options = { .rank = (guint) flags->rank,
                                     .size = (guint) flags->size,
                                     .store = store,
                                     .prefix = "nccl_ranks/",
                                     .timeout_ns = TIMEOUT_NS };

  if (devices->len == 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s", tps_device_list_summary ());
      return FALSE;
    }
  rank->device = g_ptr_array_index (devices, (guint) flags->rank % devices->len);
  options.device = rank->device;
  rank->stream = rank->device->ops->stream_new (rank->device, error);
  if (rank->stream == NULL)
    return FALSE;
  rank->group = tps_process_group_new ("nccl", &options, error);
  return rank->group != NULL;
}

/* Returns the exit status of an error: 3 if the machine lacks the hardware or the library. */
static gint
status_of (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND)
                 || g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE)
             ? 3
             : 1;
}

static gint
run_rank (const Flags *flags, GError **error)
{
  TpsStore *store = file_store_new (flags->store != NULL ? flags->store : ".");
  Rank rank = { 0 };
  gint status = 0;

  if (!join (&rank, flags, store, error))
    status = status_of (*error);
  else if (!run_checks (&rank, error) || rank.n_wrong > 0)
    status = 1;
  if (rank.group != NULL)
    rank.group->ops->free (rank.group);
  if (rank.stream != NULL)
    rank.device->ops->stream_free (rank.stream);
  store->ops->free (store);
  return status;
}

int
main (int argc, char **argv)
{
  Flags flags = { .size = 1 };
  g_autoptr (GError) error = NULL;
  gint status;

  setvbuf (stdout, NULL, _IOLBF, 0); /* line buffering, so that lines survive a kill */
  status = parse (&flags, &argc, &argv, &error) ? run_rank (&flags, &error) : 2;
  if (error != NULL)
    fprintf (stderr, "nccl_ranks: %s\n", error->message);
  g_free (flags.store);
  return status;
}
