/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All steps after the first call run in callbacks of the client, one at a time. A callback records
 * its event and ends in proceed(), the only function that decides on the next step:
 *
 *   BEGIN -> PUT -> RUN -> GET -> end
 *     ^______|      RUN     GET      after a retryable error, when no call is in flight
 *
 * `trouble` is a retryable error, and `failure` is a final one. After either error, the state
 * machine first waits for the calls in flight, because they borrow the message. */

#include "plugin/client/chunked_call.h"

#include "plugin/chunks/chunk_layout.h"
#include "plugin/frame/message.h"
#include "plugin/wire/wire_chunks.h"
#include "runtime/base/error.h"

#define ASSEMBLY_WINDOW 4

/* Assembles a reply from its chunks, which may come in any order within a window. */
typedef struct
{
  gint64 n_bytes; /* of the reply; 0 = unknown */
  gint32 n_chunks;
  gsize n_each_bytes; /* of each chunk but the last; 0 = before the first chunk */
  TpsBufferPool *bodies;
  TpsMessageBuilder builder; /* used from the first chunk on */
  gint32 n_fed;
  gint32 n_asked; /* chunks [0, n_asked) have been requested */
  /* Chunks that arrived before an earlier one: chunk i at i % ASSEMBLY_WINDOW, for i >=
   * n_fed. */
  GBytes *early[ASSEMBLY_WINDOW];
} Assembly;

/* Begins a reply of `n_bytes` in `n_chunks`. If both are 0, they are unknown until the first
 * chunk. */
static Assembly *
assembly_new (gint64 n_bytes, gint32 n_chunks, TpsBufferPool *bodies, GError **error)
{
  Assembly *assembly;

  if (n_bytes < 0 || n_chunks < 0 || n_chunks > n_bytes)
    return tps_fail_null (error, TPS_ERROR_INTERNAL,
                          "the peer announced a reply of %" G_GINT64_FORMAT
                          " bytes in %d chunks, which is impossible",
                          n_bytes, n_chunks);
  assembly = g_new0 (Assembly, 1);
  assembly->n_bytes = n_bytes;
  assembly->n_chunks = n_chunks;
  assembly->bodies = bodies != NULL ? tps_buffer_pool_ref (bodies) : NULL;
  return assembly;
}

static void
assembly_free (Assembly *assembly)
{
  if (assembly == NULL)
    return;
  for (guint i = 0; i < ASSEMBLY_WINDOW; i++)
    g_clear_pointer (&assembly->early[i], g_bytes_unref);
  tps_message_builder_clear (&assembly->builder);
  g_clear_pointer (&assembly->bodies, tps_buffer_pool_unref);
  g_free (assembly);
}

static GBytes **
get_early (Assembly *assembly, gint32 index)
{
  return &assembly->early[index % ASSEMBLY_WINDOW];
}

/* Returns the number of the next chunk to request, and counts the chunk as requested; -1 = none
 * now. */
static gint32
assembly_ask (Assembly *assembly)
{
  gint32 n_known = assembly->n_chunks > 0 ? assembly->n_chunks : 1;

  while (assembly->n_asked < n_known && assembly->n_asked < assembly->n_fed + ASSEMBLY_WINDOW)
    {
      gint32 index = assembly->n_asked++;

      if (*get_early (assembly, index) == NULL)
        return index;
    }
  return -1;
}

/* Returns TRUE if the numbers of the chunk match the known numbers of the reply. */
static gboolean
check_numbers (const Assembly *assembly, const TpsChunk *chunk, GError **error)
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
begin_assembly (Assembly *assembly, gint32 n_chunks, gsize n_each_bytes, GError **error)
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
feed (Assembly *assembly, GBytes *bytes, GError **error)
{
  g_autoptr (GError) why = NULL;
  gboolean is_last;

  if (assembly->n_fed == 0
      && !begin_assembly (assembly, assembly->n_chunks, g_bytes_get_size (bytes), error))
    return FALSE;
  is_last = assembly->n_fed == assembly->n_chunks - 1;
  if (!tps_message_builder_feed (&assembly->builder, bytes, is_last, &why))
    return tps_fail (error, TPS_ERROR_INTERNAL, "the chunks of the reply do not form a message: %s",
                     why->message);
  assembly->n_fed++;
  return TRUE;
}

/* Adds a chunk, and takes a reference to its data if necessary. Errors: INTERNAL; `may_help` is
 * TRUE if the chunk may be requested again (a wrong CRC), FALSE if the reply cannot be completed. A
 * chunk that is here already, or was not requested, changes nothing: the caller must limit the time
 * for a peer that sends only such chunks. */
static gboolean
assembly_put (Assembly *assembly, const TpsChunk *chunk, gboolean *may_help, GError **error)
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

/* Returns the complete reply, which the caller owns; NULL if chunks are missing. */
static TpsMessage *
assembly_take (Assembly *assembly)
{
  if (assembly->n_fed == 0 || assembly->n_fed < assembly->n_chunks)
    return NULL;
  return g_steal_pointer (&assembly->builder.message);
}

#define PUT_WINDOW 3
#define FRAME_HEAD_BYTES 512 /* upper bound of put_chunk's message, not counting its data */
#define MAX_REFUSALS 3       /* consecutive, without progress */
#define NS_PER_MS ((gint64) 1000000)
#define FIRST_DELAY_NS (10 * NS_PER_MS)
#define MAX_DELAY_NS (1000 * NS_PER_MS)
#define END_PATIENCE_NS ((gint64) 10 * 1000000000) /* timeout of end_transfer */

typedef enum
{
  PHASE_BEGIN,
  PHASE_PUT,
  PHASE_RUN,
  PHASE_GET,
} Phase;

typedef struct
{
  TpsChunkedOptions options; /* `name` is a copy */
  TpsChunkedDone done;
  gpointer user_data;
  gchar *transfer;

  Phase phase;
  guint n_in_flight;
  GError *trouble; /* the first retryable error since the last attempt */
  GError *failure; /* the final error */
  TpsMessage *answer;
  guint n_losses;   /* consecutive lost connections, without progress */
  guint n_refusals; /* consecutive refusals, without progress */
  gboolean was_begun;
  gboolean is_waiting; /* a delay before the next attempt runs */

  TpsWriter *message; /* borrowed; NULL = a fetch only */
  TpsChunkLayout layout;
  gint32 n_sent;     /* put_chunk was called for chunks [0, n_sent) */
  gint32 n_received; /* number of chunks that the server has, by its own reply */
  gint32 n_best;     /* the maximum of n_received */

  Assembly *assembly;
} ChunkedCall;

static void proceed (ChunkedCall *call);

/* ---- end of the call ------------------------------------------------------------------------ */

static void
on_ended (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
}

static void
finish (ChunkedCall *call)
{
  if (call->was_begun && !g_error_matches (call->failure, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    {
      const TpsChunkedOptions *options = &call->options;
      TpsTransferArguments arguments = { .transfer = call->transfer };
      gint64 deadline_ns = options->ops->get_now_ns (options->client) + END_PATIENCE_NS;

      /* No caller waits for end_transfer. If it fails, the server drops the transfer later, when it
       * expires. */
      options->ops->call (options->client, &tps_end_transfer_rpc, &arguments, deadline_ns, on_ended,
                          NULL);
    }
  if (call->failure != NULL)
    g_clear_pointer (&call->answer, tps_message_free);
  call->done (call->user_data, call->answer, call->failure);
  g_clear_error (&call->trouble);
  assembly_free (call->assembly);
  g_free (call->transfer);
  g_free ((gchar *) (gsize) call->options.name);
  g_free (call);
}

/* Records a final error, and takes ownership of it. Only the first error is kept. */
static void
fail (ChunkedCall *call, GError *error)
{
  if (call->failure != NULL)
    {
      g_error_free (error);
      return;
    }
  g_prefix_error (&error, "%s in chunks: ", call->options.name);
  call->failure = error;
}

/* ---- retryable errors ----------------------------------------------------------------------- */

static void
note_progress (ChunkedCall *call)
{
  call->n_losses = 0;
  call->n_refusals = 0;
}

static gboolean
is_lost (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST);
}

/* Returns TRUE if a retry from the position of the server may help. */
static gboolean
is_refused_put (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT)
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND);
}

/* Returns TRUE if the peer was busy and gave a time for a retry. */
static gboolean
is_busy (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED)
         && tps_error_get_retry_after_ms (error) >= 0;
}

/* Records an error, which is retryable if `may_help` is TRUE, and otherwise final. */
static void
note_error (ChunkedCall *call, const GError *error, gboolean may_help)
{
  if (!may_help)
    fail (call, g_error_copy (error));
  else if (call->trouble == NULL)
    call->trouble = g_error_copy (error);
}

static void
on_delayed (gpointer user_data, const GError *error)
{
  ChunkedCall *call = user_data;

  call->n_in_flight--;
  call->is_waiting = FALSE;
  if (error != NULL)
    fail (call, g_error_copy (error));
  proceed (call);
}

/* Returns the delay before the next attempt. The first reconnection is immediate, and later delays
 * grow. */
static gint64
get_wait_ns (const ChunkedCall *call, const GError *trouble)
{
  if (is_busy (trouble))
    return (gint64) MAX (tps_error_get_retry_after_ms (trouble), 1) * NS_PER_MS;
  return is_lost (trouble) && call->n_losses > 1
             ? MIN (FIRST_DELAY_NS << MIN (call->n_losses, 7), MAX_DELAY_NS)
             : 0;
}

/* Handles a retryable error when no call is in flight. PUT goes back to BEGIN, which requests the
 * position of the server. All other steps are repeated: BEGIN and RUN send their call again, and
 * GET requests the missing chunks again. Fails if no further attempt is allowed. */
static void
recover (ChunkedCall *call)
{
  g_autoptr (GError) trouble = g_steal_pointer (&call->trouble);
  gint64 now_ns = call->options.ops->get_now_ns (call->options.client);
  gint64 until_ns;

  if (is_lost (trouble))
    call->n_losses++;
  else if (!is_busy (trouble))
    call->n_refusals++;
  until_ns = now_ns + get_wait_ns (call, trouble);
  if (call->n_refusals > MAX_REFUSALS || until_ns >= call->options.deadline_ns)
    {
      fail (call, g_steal_pointer (&trouble));
      return;
    }
  if (call->phase == PHASE_PUT)
    call->phase = PHASE_BEGIN;
  if (call->phase == PHASE_GET)
    call->assembly->n_asked = call->assembly->n_fed; /* the other chunks did not come */
  if (until_ns > now_ns)
    {
      call->is_waiting = TRUE;
      call->n_in_flight++;
      call->options.ops->delay (call->options.client, until_ns, on_delayed, call);
    }
}

/* ---- sending -------------------------------------------------------------------------------- */

static void
start_call (ChunkedCall *call, const TpsRpc *rpc, gconstpointer arguments, TpsClientDone done)
{
  const TpsChunkedOptions *options = &call->options;

  call->n_in_flight++;
  options->ops->call (options->client, rpc, arguments, options->deadline_ns, done, call);
}

static GError *
no_service_error (const ChunkedCall *call, const GError *error)
{
  gsize max_frame_bytes = call->options.max_frame_bytes;

  return g_error_new (
      TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
      "the message has %" G_GINT64_FORMAT " bytes, the peer accepts at most "
      "%" G_GSIZE_FORMAT " in one frame and does not support chunks (%s): raise its limit "
      "(--max-frame-mib of thriftps_server), or send less at a time",
      call->layout.n_bytes, max_frame_bytes > 0 ? max_frame_bytes : G_MAXINT32, error->message);
}

static void
on_begun (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  ChunkedCall *call = user_data;
  GError *unclear = NULL;
  gint32 n_received = 0;

  call->n_in_flight--;
  if (error != NULL && !call->was_begun && g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    fail (call, no_service_error (call, error));
  else if (error != NULL)
    note_error (call, error, call->was_begun && (is_lost (error) || is_busy (error)));
  else if (!tps_rpc_read_answer (&tps_begin_transfer_rpc, result, type, &n_received, &unclear))
    fail (call, unclear);
  else if (n_received < 0 || n_received > call->layout.n_chunks)
    fail (call, g_error_new (TPS_ERROR, TPS_ERROR_INTERNAL,
                             "the peer reports %d received chunks, expected 0 to %d", n_received,
                             call->layout.n_chunks));
  else
    {
      call->was_begun = TRUE;
      call->n_sent = call->n_received = n_received;
      call->phase = PHASE_PUT;
    }
  proceed (call);
}

static void
on_put (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  ChunkedCall *call = user_data;

  call->n_in_flight--;
  if (error != NULL)
    note_error (call, error, is_lost (error) || is_busy (error) || is_refused_put (error));
  else if (++call->n_received > call->n_best)
    {
      call->n_best = call->n_received;
      note_progress (call);
    }
  proceed (call);
}

static void
put_next (ChunkedCall *call)
{
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
  TpsChunk chunk = { .transfer = call->transfer,
                     .index = call->n_sent++,
                     .count = call->layout.n_chunks };

  tps_chunk_layout_get_pieces (&call->layout, chunk.index, call->message, pieces);
  chunk.data.pieces = (const struct iovec *) (gpointer) pieces->data;
  chunk.data.n_pieces = pieces->len;
  chunk.crc32c = (gint32) tps_crc32c_of_pieces (chunk.data.pieces, chunk.data.n_pieces);
  start_call (call, &tps_put_chunk_rpc, &chunk, on_put);
}

/* ---- running -------------------------------------------------------------------------------- */

static GError *
forgotten_error (const GError *error)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                      "the peer has lost the transfer, and the call may have been executed: %s",
                      error->message);
}

static void
begin_get (ChunkedCall *call, gint64 n_bytes, gint32 n_chunks)
{
  GError *error = NULL;

  call->assembly = assembly_new (n_bytes, n_chunks, call->options.bodies, &error);
  if (call->assembly == NULL)
    fail (call, error);
  call->phase = PHASE_GET;
}

static void
take_large_answer (ChunkedCall *call, const TpsLargeAnswer *large)
{
  GError *error = NULL;

  begin_get (call, large->bytes, large->count);
  if (call->failure != NULL || large->count > 0)
    return;
  call->assembly->n_chunks = 1; /* the peer has not sent the reply in chunks */
  if (large->message.received == NULL)
    fail (call, g_error_new_literal (TPS_ERROR, TPS_ERROR_INTERNAL,
                                     "the peer returned neither a message nor chunks"));
  else if (feed (call->assembly, large->message.received, &error))
    call->answer = assembly_take (call->assembly);
  else
    fail (call, error);
}

static void
on_run (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  ChunkedCall *call = user_data;
  g_auto (TpsLargeAnswer) large = { 0 };
  GError *unclear = NULL;

  call->n_in_flight--;
  if (error != NULL && g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    fail (call, forgotten_error (error));
  else if (error != NULL)
    note_error (call, error, is_lost (error) || is_busy (error));
  else if (tps_rpc_read_answer (&tps_run_transfer_rpc, result, type, &large, &unclear))
    {
      note_progress (call);
      take_large_answer (call, &large);
    }
  else
    fail (call, unclear);
  proceed (call);
}

static void
run (ChunkedCall *call)
{
  TpsTransferArguments arguments = { .transfer = call->transfer };

  call->phase = PHASE_RUN;
  start_call (call, &tps_run_transfer_rpc, &arguments, on_run);
}

/* ---- fetching ------------------------------------------------------------------------------- */

static void
take_chunk (ChunkedCall *call, TpsReader *result, TpsWireType type)
{
  gint32 n_before = call->assembly->n_fed;
  g_auto (TpsChunk) chunk = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean may_help = FALSE;

  if (!tps_rpc_read_answer (&tps_get_chunk_rpc, result, type, &chunk, &error)
      || !assembly_put (call->assembly, &chunk, &may_help, &error))
    note_error (call, error, may_help);
  else if (call->assembly->n_fed > n_before)
    note_progress (call);
  if (call->answer == NULL)
    call->answer = assembly_take (call->assembly);
}

static void
on_got (gpointer user_data, TpsReader *result, TpsWireType type, const GError *error)
{
  ChunkedCall *call = user_data;

  call->n_in_flight--;
  if (error != NULL && g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    fail (call, forgotten_error (error));
  else if (error != NULL)
    note_error (call, error, is_lost (error) || is_busy (error));
  else
    take_chunk (call, result, type);
  proceed (call);
}

static void
get_more (ChunkedCall *call)
{
  TpsTransferArguments arguments = { .transfer = call->transfer };

  while ((arguments.index = assembly_ask (call->assembly)) >= 0)
    start_call (call, &tps_get_chunk_rpc, &arguments, on_got);
  if (call->n_in_flight > 0)
    return;
  /* Every chunk was received, but the message is incomplete. Without this error, no further
   * callback would come, and the call would never end. */
  fail (call, g_error_new_literal (TPS_ERROR, TPS_ERROR_INTERNAL,
                                   "the peer returned other chunks than requested"));
  finish (call);
}

/* ---- next step ------------------------------------------------------------------------------ */

static void
proceed (ChunkedCall *call)
{
  gboolean is_over = call->failure != NULL || call->answer != NULL;

  if ((is_over || call->trouble != NULL) && call->n_in_flight > 0)
    return;
  if (!is_over && call->trouble != NULL)
    recover (call);
  if (call->failure != NULL || call->answer != NULL)
    {
      finish (call);
      return;
    }
  if (call->is_waiting)
    return;
  if (call->phase == PHASE_PUT)
    {
      while (call->n_in_flight < PUT_WINDOW && call->n_sent < call->layout.n_chunks)
        put_next (call);
      if (call->n_in_flight == 0)
        run (call);
    }
  else if (call->phase == PHASE_GET)
    get_more (call);
  else if (call->n_in_flight > 0)
    return;
  else if (call->phase == PHASE_BEGIN)
    {
      TpsTransferArguments arguments = { .transfer = call->transfer,
                                         .bytes = call->layout.n_bytes,
                                         .count = call->layout.n_chunks };

      start_call (call, &tps_begin_transfer_rpc, &arguments, on_begun);
    }
  else
    run (call);
}

static ChunkedCall *
call_new (const TpsChunkedOptions *options, const gchar *transfer, TpsChunkedDone done,
          gpointer user_data)
{
  ChunkedCall *call = g_new0 (ChunkedCall, 1);

  call->options = *options;
  call->options.name = g_strdup (options->name);
  call->transfer = g_strdup (transfer);
  call->done = done;
  call->user_data = user_data;
  return call;
}

void
tps_chunked_call_send (const TpsChunkedOptions *options, TpsWriter *message, TpsChunkedDone done,
                       gpointer user_data)
{
  gchar name[TPS_TRANSFER_NAME_BYTES];
  gsize chunk_bytes = TPS_CHUNK_BYTES;
  ChunkedCall *call;
  guint n_pieces;
  gsize n_bytes;

  tps_transfer_make_name (name);
  call = call_new (options, name, done, user_data);
  tps_writer_get_pieces (message, &n_pieces, &n_bytes);
  if (options->max_frame_bytes > FRAME_HEAD_BYTES)
    chunk_bytes = MIN (chunk_bytes, options->max_frame_bytes - FRAME_HEAD_BYTES);
  call->message = message;
  call->layout = tps_chunk_layout ((gint64) n_bytes, chunk_bytes);
  call->phase = PHASE_BEGIN;
  proceed (call);
}

void
tps_chunked_call_fetch (const TpsChunkedOptions *options, const gchar *transfer,
                        TpsChunkedDone done, gpointer user_data)
{
  ChunkedCall *call = call_new (options, transfer, done, user_data);

  call->was_begun = TRUE;
  begin_get (call, 0, 0);
  proceed (call);
}
