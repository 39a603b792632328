/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/populate.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

/* Linux 5.14 and later have this advice, but the headers may be older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define N_THREADS 2
#define MIN_BYTES ((gsize) 64 << 20) /* smaller blocks are not worth a thread */
#define PART_BYTES ((gsize) 8 << 20) /* a multiple of the size of a huge page */

struct TpsPopulate
{
  guint8 *begin; /* at the beginning of a huge page */
  gsize n_parts;
  atomic_size_t next;
  atomic_bool ends;
  guint n_threads;
  TpsThread threads[N_THREADS];
};

/* Ends at the first error, for example if the kernel does not support the advice. The kernel then
 * provides the remaining pages when they are written. */
static gpointer
populate_parts (gpointer user_data)
{
  TpsPopulate *populate = user_data;
  gsize part;

  while (!atomic_load (&populate->ends)
         && (part = atomic_fetch_add (&populate->next, 1)) < populate->n_parts
         && madvise (populate->begin + part * PART_BYTES, PART_BYTES, MADV_POPULATE_WRITE) == 0)
    ;
  return NULL;
}

TpsPopulate *
tps_populate_begin (gpointer memory, gsize n_bytes)
{
  gsize before = -(gsize) memory % PART_BYTES;
  TpsPopulate *populate;

  if (n_bytes < MIN_BYTES)
    return NULL;
  populate = g_new0 (TpsPopulate, 1);
  populate->begin = (guint8 *) memory + before;
  populate->n_parts = (n_bytes - before) / PART_BYTES;
  while (populate->n_threads < N_THREADS
         && tps_thread_start (&populate->threads[populate->n_threads], "tps-populate",
                              populate_parts, populate, NULL))
    populate->n_threads++;
  if (populate->n_threads > 0)
    return populate;
  g_free (populate);
  return NULL;
}

void
tps_populate_end (TpsPopulate *populate)
{
  if (populate == NULL)
    return;
  atomic_store (&populate->ends, TRUE);
  for (guint i = 0; i < populate->n_threads; i++)
    tps_sync_check (pthread_join (populate->threads[i], NULL));
  g_free (populate);
}
