/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/answer_assembly.h"

#include "plugin/chunks/chunk_layout.h"
#include "runtime/base/error.h"

struct TpsAssembly
{
  gint64 n_bytes; /* of the reply; 0 = unknown */
  gint32 n_chunks;
  gsize n_each_bytes; /* of each chunk but the last; 0 = before the first chunk */
  TpsBufferPool *bodies;
  TpsMessageBuilder builder; /* used from the first chunk on */
  gint32 n_fed;
  gint32 n_asked; /* chunks [0, n_asked) have been requested */
  /* Chunks that arrived before an earlier one: chunk i at i % TPS_ASSEMBLY_WINDOW, for i >=
   * n_fed. */
  GBytes *early[TPS_ASSEMBLY_WINDOW];
};

TpsAssembly *
tps_assembly_new (gint64 n_bytes, gint32 n_chunks, TpsBufferPool *bodies, GError **error)
{
  TpsAssembly *assembly;

  if (n_bytes < 0 || n_chunks < 0 || n_chunks > n_bytes)
    return tps_fail_null (error, TPS_ERROR_INTERNAL,
                          "the peer announced a reply of %" G_GINT64_FORMAT
                          " bytes in %d chunks, which is impossible",
                          n_bytes, n_chunks);
  assembly = g_new0 (TpsAssembly, 1);
  assembly->n_bytes = n_bytes;
  assembly->n_chunks = n_chunks;
  assembly->bodies = bodies != NULL ? tps_buffer_pool_ref (bodies) : NULL;
  return assembly;
}

void
tps_assembly_free (TpsAssembly *assembly)
{
  if (assembly == NULL)
    return;
  for (guint i = 0; i < TPS_ASSEMBLY_WINDOW; i++)
    g_clear_pointer (&assembly->early[i], g_bytes_unref);
  tps_message_builder_clear (&assembly->builder);
  g_clear_pointer (&assembly->bodies, tps_buffer_pool_unref);
  g_free (assembly);
}

/* ---- requests ------------------------------------------------------------------------------- */

static GBytes **
get_early (TpsAssembly *assembly, gint32 index)
{
  return &assembly->early[index % TPS_ASSEMBLY_WINDOW];
}

gint32
tps_assembly_ask (TpsAssembly *assembly)
{
  gint32 n_known = assembly->n_chunks > 0 ? assembly->n_chunks : 1;

  while (assembly->n_asked < n_known && assembly->n_asked < assembly->n_fed + TPS_ASSEMBLY_WINDOW)
    {
      gint32 index = assembly->n_asked++;

      if (*get_early (assembly, index) == NULL)
        return index;
    }
  return -1;
}

void
tps_assembly_ask_again (TpsAssembly *assembly)
{
  assembly->n_asked = assembly->n_fed;
}

/* ---- chunks --------------------------------------------------------------------------------- */

/* Returns TRUE if the numbers of the chunk match the known numbers of the reply. */
static gboolean
check_numbers (const TpsAssembly *assembly, const TpsChunk *chunk, GError **error)
{
  gsize n_bytes = g_bytes_get_size (chunk->data.received);
  gsize n_each = assembly->n_each_bytes > 0 ? assembly->n_each_bytes : n_bytes;
  gboolean is_last = chunk->index == chunk->count - 1;
  gboolean ok = chunk->count > 0 && chunk->index >= 0 && chunk->index < chunk->count && n_bytes > 0;

  if (ok && assembly->n_chunks > 0)
    ok = chunk->count == assembly->n_chunks;
  if (ok && (!is_last || chunk->index == 0))
    ok = n_bytes == n_each;
  if (ok && is_last)
    ok = n_bytes <= n_each || assembly->n_each_bytes == 0;
  if (!ok)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "the peer sent chunk %d of %d with %" G_GSIZE_FORMAT
                 " bytes, which does not match "
                 "the other chunks",
                 chunk->index, chunk->count, n_bytes);
  return ok;
}

/* Prepares the assembly for chunks. The length of the first chunk is the length of all chunks but
 * the last. */
static gboolean
begin (TpsAssembly *assembly, gint32 n_chunks, gsize n_each_bytes, GError **error)
{
  if (assembly->n_bytes == 0)
    {
      assembly->n_chunks = n_chunks;
      assembly->n_bytes = (gint64) n_each_bytes * n_chunks;
    }
  else if (!tps_chunk_layout_is_possible (assembly->n_bytes, assembly->n_chunks, n_each_bytes))
    return tps_fail (error, TPS_ERROR_INTERNAL,
                     "the peer announced %" G_GINT64_FORMAT " bytes in %d chunks, but the first "
                     "chunk has %" G_GSIZE_FORMAT " bytes, which does not match these numbers",
                     assembly->n_bytes, assembly->n_chunks, n_each_bytes);
  assembly->n_each_bytes = n_each_bytes;
  tps_message_builder_init (&assembly->builder, (gsize) assembly->n_bytes, assembly->bodies);
  return TRUE;
}

static gboolean
feed (TpsAssembly *assembly, GBytes *bytes, GError **error)
{
  g_autoptr (GError) why = NULL;
  gboolean is_last;

  if (assembly->n_fed == 0
      && !begin (assembly, assembly->n_chunks, g_bytes_get_size (bytes), error))
    return FALSE;
  is_last = assembly->n_fed == assembly->n_chunks - 1;
  if (!tps_message_builder_feed (&assembly->builder, bytes, is_last, &why))
    return tps_fail (error, TPS_ERROR_INTERNAL, "the chunks of the reply do not form a message: %s",
                     why->message);
  assembly->n_fed++;
  return TRUE;
}

gboolean
tps_assembly_put (TpsAssembly *assembly, const TpsChunk *chunk, gboolean *may_help, GError **error)
{
  *may_help = FALSE;
  if (!check_numbers (assembly, chunk, error))
    return FALSE;
  *may_help = TRUE;
  if (!tps_crc32c_check_chunk (chunk, TPS_ERROR_INTERNAL, error))
    return FALSE;
  if (chunk->index < assembly->n_fed || chunk->index >= assembly->n_asked
      || *get_early (assembly, chunk->index) != NULL)
    return TRUE;
  *may_help = FALSE;
  assembly->n_chunks = chunk->count;
  *get_early (assembly, chunk->index) = g_bytes_ref (chunk->data.received);
  while (*get_early (assembly, assembly->n_fed) != NULL)
    {
      g_autoptr (GBytes) bytes = g_steal_pointer (get_early (assembly, assembly->n_fed));

      if (!feed (assembly, bytes, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tps_assembly_put_whole (TpsAssembly *assembly, GBytes *message, GError **error)
{
  assembly->n_chunks = 1;
  return feed (assembly, message, error);
}

gint32
tps_assembly_get_n_received (const TpsAssembly *assembly)
{
  return assembly->n_fed;
}

TpsMessage *
tps_assembly_take (TpsAssembly *assembly)
{
  if (assembly->n_fed == 0 || assembly->n_fed < assembly->n_chunks)
    return NULL;
  return g_steal_pointer (&assembly->builder.message);
}
