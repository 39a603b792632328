/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/chunks/chunk_service.h"

#include <string.h>

#include "plugin/service/chunks/chunk_service_private.h"
#include "runtime/base/error.h"

/* ---- expiry --------------------------------------------------------------------------------- */

/* The timer need not be set again after each use of a transfer, because a use only postpones the
 * expiry. The lock must be held. */
void
tps_chunks_arm_timer (TpsChunks *chunks)
{
  tps_shell_set_deadline (&chunks->shell, tps_transfer_store_get_next_expiry_ns (chunks->store));
}

typedef struct
{
  TpsChunks *chunks;
  GPtrArray *transfers;
} Forgotten;

static void
free_forgotten (gpointer data)
{
  Forgotten *forgotten = data;

  g_ptr_array_unref (forgotten->transfers);
  tps_shell_end (&forgotten->chunks->shell);
  g_free (forgotten);
}

/* Frees `transfers`, which have been removed from the store, on a worker, because this takes long.
 * tps_shell_begin() must have been called. */
static void
forget (TpsChunks *chunks, GPtrArray *transfers)
{
  Forgotten *forgotten = g_new (Forgotten, 1);

  *forgotten = (Forgotten) { chunks, transfers };
  if (transfers->len > 0)
    tps_worker_pool_submit (chunks->workers, free_forgotten, forgotten);
  else
    free_forgotten (forgotten);
}

/* Removes expired transfers from the store at once. */
static void
expire (gpointer data)
{
  TpsChunks *chunks = data;
  GPtrArray *transfers;

  tps_mutex_lock (&chunks->shell.lock);
  transfers = tps_transfer_store_expire (chunks->store, tps_clock_now_ns ());
  tps_shell_begin (&chunks->shell);
  tps_chunks_arm_timer (chunks);
  tps_mutex_unlock (&chunks->shell.lock);
  forget (chunks, transfers);
}

/* ---- creation and release ------------------------------------------------------------------- */

TpsChunks *
tps_chunks_new (const TpsChunksOptions *options)
{
  TpsTransferStoreOptions store = { .max_transfers = options->max_transfers,
                                    .max_bytes = options->max_bytes,
                                    .idle_ns = options->idle_ns,
                                    .budget = tps_budgets_or_none (options->budgets)->transfers };
  TpsChunks *chunks = g_new0 (TpsChunks, 1);

  chunks->workers = options->workers;
  chunks->answer_chunk_bytes = options->answer_chunk_bytes > 0 ? options->answer_chunk_bytes
                                                               : TPS_CHUNK_BYTES;
  if (options->metrics != NULL)
    chunks->metrics = tps_metrics_ref (options->metrics);
  if (options->access != NULL)
    chunks->access = tps_access_ref (options->access);
  chunks->closing_error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                               "this server is shutting down");
  tps_error_set_retry_after_ms (chunks->closing_error, TPS_RETRY_AFTER_MS); /* it may restart */
  chunks->replies = tps_budget_ref (store.budget);
  chunks->store = tps_transfer_store_new (&store);
  chunks->feeds = g_hash_table_new (NULL, NULL);
  chunks->runs = g_hash_table_new (NULL, NULL);
  tps_shell_init (&chunks->shell, chunks->workers, expire, chunks);
  return chunks;
}

/* The services of running calls end these calls. */
static void
shut_down (gpointer object)
{
  TpsChunks *chunks = object;

  tps_mutex_lock (&chunks->shell.lock);
  tps_shell_shut_down (&chunks->shell);
  tps_mutex_unlock (&chunks->shell.lock);
}

void
tps_chunks_free (TpsChunks *chunks)
{
  shut_down (chunks);
  tps_shell_drain (&chunks->shell);
  tps_transfer_store_free (chunks->store);
  tps_budget_unref (chunks->replies);
  g_hash_table_unref (chunks->feeds);
  g_hash_table_unref (chunks->runs);
  g_clear_pointer (&chunks->dispatcher, tps_dispatcher_unref);
  g_clear_pointer (&chunks->metrics, tps_metrics_unref);
  g_clear_pointer (&chunks->access, tps_access_unref);
  g_error_free (chunks->closing_error);
  tps_shell_clear (&chunks->shell);
  g_free (chunks);
}

TpsDispatcher *
tps_chunks_dispatcher_new (const TpsService *services, guint n_services,
                           const gchar *default_service, GError **error)
{
  g_autoptr (GArray) others = g_array_new (FALSE, FALSE, sizeof (TpsService));

  for (guint i = 0; i < n_services; i++)
    if (strcmp (services[i].name, TPS_CHUNKS_SERVICE_NAME) != 0)
      g_array_append_val (others, services[i]);
  return tps_dispatcher_new ((const TpsService *) (gpointer) others->data, others->len,
                             default_service, error);
}

gboolean
tps_chunks_set_services (TpsChunks *chunks, const TpsService *services, guint n_services,
                         const gchar *default_service, GError **error)
{
  TpsDispatcher *dispatcher = tps_chunks_dispatcher_new (services, n_services, default_service,
                                                         error);
  TpsDispatcher *replaced;

  if (dispatcher == NULL)
    return FALSE;
  tps_dispatcher_set_metrics (dispatcher, chunks->metrics);
  if (chunks->access != NULL)
    tps_dispatcher_set_access (dispatcher, chunks->access);
  tps_mutex_lock (&chunks->shell.lock);
  replaced = chunks->dispatcher;
  chunks->dispatcher = dispatcher;
  tps_mutex_unlock (&chunks->shell.lock);
  g_clear_pointer (&replaced, tps_dispatcher_unref);
  return TRUE;
}

/* ---- owners --------------------------------------------------------------------------------- */

/* Returns the name of the principal to which the transfers of the call belong; NULL = there is no
 * access control. */
static const gchar *
get_owner (TpsCall *call)
{
  return tps_call_get_grant (call) != NULL ? tps_principal_get_name (tps_call_get_principal (call))
                                           : NULL;
}

TpsTransfer *
tps_chunks_find (TpsChunks *chunks, TpsCall *call, const gchar *name, GError **error)
{
  TpsTransfer *transfer = tps_transfer_store_find (chunks->store, name, error);

  if (transfer == NULL || tps_transfer_may_use (transfer, get_owner (call)))
    return transfer;
  tps_transfer_store_set_not_found (chunks->store, name, error);
  return NULL;
}

/* Returns the circumstances of a call that needs room; `dropped` must be passed to forget(). */
static TpsTransferNeed
need_of (TpsCall *call)
{
  return (TpsTransferNeed) {
    .tenant = tps_call_get_tenant (call),
    .now_ns = tps_clock_now_ns (),
    .dropped = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_transfer_unref),
  };
}

/* Returns the transfer with this name, which is created if necessary. Errors: ALREADY_EXISTS if the
 * transfer of a different principal has this name. The lock must be held. */
static TpsTransfer *
make_or_find (TpsChunks *chunks, TpsCall *call, const TpsTransferArguments *arguments,
              const TpsTransferNeed *need, GError **error)
{
  TpsTransfer *found = tps_transfer_store_find (chunks->store, arguments->transfer, NULL);
  TpsTransfer *transfer;

  if (found != NULL && !tps_transfer_may_use (found, get_owner (call)))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
                   "transfer %s: the name is taken; names should be 128 random bits",
                   arguments->transfer);
      return NULL;
    }
  transfer = tps_transfer_store_begin (chunks->store, arguments->transfer, arguments->bytes,
                                       arguments->count, need, error);
  if (transfer != NULL && found == NULL)
    tps_transfer_set_owner (transfer, get_owner (call));
  return transfer;
}

guint
tps_chunks_get_n_transfers (TpsChunks *chunks)
{
  guint n_transfers;

  tps_mutex_lock (&chunks->shell.lock);
  n_transfers = tps_transfer_store_get_n_transfers (chunks->store);
  tps_mutex_unlock (&chunks->shell.lock);
  return n_transfers;
}

/* ---- begin_transfer, end_transfer ----------------------------------------------------------- */

static gboolean
begin (TpsChunks *chunks, TpsCall *call, const TpsTransferArguments *arguments, gint32 *n_received,
       GError **error)
{
  TpsTransferNeed need = need_of (call);
  TpsTransfer *transfer = NULL;

  tps_mutex_lock (&chunks->shell.lock);
  tps_shell_begin (&chunks->shell);
  if (chunks->shell.is_shut_down)
    g_propagate_error (error, g_error_copy (chunks->closing_error));
  else
    transfer = make_or_find (chunks, call, arguments, &need, error);
  if (transfer != NULL)
    {
      *n_received = tps_transfer_get_n_received (transfer);
      tps_chunks_arm_timer (chunks);
    }
  tps_mutex_unlock (&chunks->shell.lock);
  forget (chunks, need.dropped);
  return transfer != NULL;
}

static void
handle_begin_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  gint32 n_received = 0;

  if (tps_call_read_arguments (call, &arguments, &error)
      && begin (service, call, &arguments, &n_received, &error))
    tps_call_reply_value (call, &n_received);
  else
    tps_call_reply_error (call, error);
}

static TpsTransfer *
end (TpsChunks *chunks, TpsCall *call, const gchar *name)
{
  TpsTransfer *ended = NULL;

  tps_mutex_lock (&chunks->shell.lock);
  if (tps_chunks_find (chunks, call, name, NULL) != NULL)
    ended = tps_transfer_store_end (chunks->store, name);
  tps_mutex_unlock (&chunks->shell.lock);
  return ended;
}

static void
free_ended (TpsCall *call, gpointer ended)
{
  tps_transfer_unref (ended);
  tps_call_reply (call, NULL, NULL);
}

/* The room in the store is available at once. A worker frees the memory. */
static void
handle_end_transfer (TpsCall *call, gpointer service)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  g_autoptr (GError) error = NULL;
  TpsTransfer *ended = NULL;

  if (tps_call_read_arguments (call, &arguments, &error))
    ended = end (service, call, arguments.transfer);
  if (ended != NULL)
    tps_call_run_on_worker (call, TPS_LANE_SHORT, free_ended, ended,
                            (GDestroyNotify) tps_transfer_unref);
  else
    tps_call_reply_done (call, error);
}

/* ---- table of methods ----------------------------------------------------------------------- */

static gboolean
keep_answer (gpointer object, TpsCall *call, TpsWriter *reply, gchar **name, GError **error)
{
  TpsChunks *chunks = object;
  TpsTransferNeed need = need_of (call);
  TpsTransfer *transfer;

  tps_mutex_lock (&chunks->shell.lock);
  tps_shell_begin (&chunks->shell);
  transfer = tps_transfer_store_keep (chunks->store, reply, &need, error);
  if (transfer != NULL)
    {
      tps_transfer_set_owner (transfer, get_owner (call));
      *name = g_strdup (tps_transfer_get_name (transfer));
      tps_chunks_arm_timer (chunks);
    }
  tps_mutex_unlock (&chunks->shell.lock);
  forget (chunks, need.dropped);
  return transfer != NULL;
}

static const TpsMethod methods[] = {
  { TPS_RIGHT_ANY, &tps_begin_transfer_rpc, handle_begin_transfer, TPS_METHOD_INLINE },
  { TPS_RIGHT_ANY, &tps_put_chunk_rpc, tps_chunks_handle_put_chunk,
    TPS_METHOD_INLINE }, /* a worker reads the bytes */
  { TPS_RIGHT_ANY, &tps_run_transfer_rpc, tps_chunks_handle_run_transfer, TPS_METHOD_INLINE },
  { TPS_RIGHT_ANY, &tps_get_chunk_rpc, tps_chunks_handle_get_chunk, TPS_METHOD_ON_WORKER },
  { TPS_RIGHT_ANY, &tps_end_transfer_rpc, handle_end_transfer,
    TPS_METHOD_INLINE }, /* a worker frees the transfer */
  { 0 },
};

TpsService
tps_chunk_service (TpsChunks *chunks)
{
  return (TpsService) { .name = TPS_CHUNKS_SERVICE_NAME,
                        .methods = methods,
                        .object = chunks,
                        .shut_down = shut_down,
                        .keep_answer = keep_answer };
}
