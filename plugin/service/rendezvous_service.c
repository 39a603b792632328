/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/rendezvous_service.h"

#include "plugin/service/arguments.h"
#include "runtime/error.h"
#include "runtime/sync.h"

struct TpsRendezvous
{
  TpsRendezvousStore *store;
  TpsWorkerPool *workers;

  TpsMutex
      lock; /* guards the timer: at most one, for the earliest deadline; taken before the store's lock */
  TpsCond fired;
  guint64 timer_id; /* 0 = none */
  gint64 timer_ns;
  guint n_firing;
  gboolean closing;
};

/* ---- the clock ------------------------------------------------------------------------------ */

static void on_timer (gpointer data);

/* With the lock held: sees to it that a timer stands for the earliest deadline. One that is about to fire arms the next. */
static void
arm_timer (TpsRendezvous *rendezvous)
{
  gint64 next_ns = tps_rendezvous_store_get_next_deadline_ns (rendezvous->store);

  if (rendezvous->closing || next_ns == G_MAXINT64)
    return;
  if (rendezvous->timer_id != 0)
    {
      if (rendezvous->timer_ns <= next_ns
          || !tps_worker_pool_cancel_timer (rendezvous->workers, rendezvous->timer_id))
        return;
      rendezvous->n_firing--;
    }
  rendezvous->timer_ns = next_ns;
  rendezvous->n_firing++;
  rendezvous->timer_id = tps_worker_pool_add_timer (rendezvous->workers, next_ns, on_timer,
                                                    rendezvous);
}

static void
on_timer (gpointer data)
{
  TpsRendezvous *rendezvous = data;

  tps_rendezvous_store_expire (rendezvous->store, tps_clock_now_ns ());
  tps_mutex_lock (&rendezvous->lock);
  rendezvous->timer_id = 0;
  arm_timer (rendezvous);
  rendezvous->n_firing--;
  tps_cond_broadcast (&rendezvous->fired);
  tps_mutex_unlock (&rendezvous->lock);
}

TpsRendezvous *
tps_rendezvous_new (TpsWorkerPool *workers)
{
  TpsRendezvous *rendezvous = g_new0 (TpsRendezvous, 1);

  rendezvous->store = tps_rendezvous_store_new ();
  rendezvous->workers = workers;
  tps_mutex_init (&rendezvous->lock);
  tps_cond_init (&rendezvous->fired);
  return rendezvous;
}

void
tps_rendezvous_free (TpsRendezvous *rendezvous)
{
  tps_rendezvous_store_shut_down (rendezvous->store);
  tps_mutex_lock (&rendezvous->lock);
  rendezvous->closing = TRUE;
  if (rendezvous->timer_id != 0
      && tps_worker_pool_cancel_timer (rendezvous->workers, rendezvous->timer_id))
    rendezvous->n_firing--;
  while (rendezvous->n_firing > 0)
    tps_cond_wait (&rendezvous->fired, &rendezvous->lock);
  tps_mutex_unlock (&rendezvous->lock);
  tps_rendezvous_store_free (rendezvous->store);
  tps_cond_clear (&rendezvous->fired);
  tps_mutex_clear (&rendezvous->lock);
  g_free (rendezvous);
}

TpsRendezvousStore *
tps_rendezvous_get_store (TpsRendezvous *rendezvous)
{
  return rendezvous->store;
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* All arguments of all methods; each method reads those it has. */
typedef struct
{
  gchar *key;
  GBytes *value;
  gint32 timeout_ms;
  gint64 amount;
  gchar *client;
  gint64 sequence;
  guint seen; /* bit i: field i + 1 */
} Arguments;

static void
arguments_clear (Arguments *arguments)
{
  g_free (arguments->key);
  g_clear_pointer (&arguments->value, g_bytes_unref);
  g_free (arguments->client);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Arguments, arguments_clear)

/* Puts field `id` of the arguments, of type `type`, where it belongs; FALSE when the method has no such field. */
typedef gboolean (*ReadField) (TpsReader *in, gint16 id, TpsWireType type, Arguments *arguments);

static gboolean
read_arguments (TpsCall *call, ReadField read_field, const gchar *const *names,
                Arguments *arguments, GError **error)
{
  TpsReader in;
  TpsWireType type;
  gint16 id;

  tps_call_get_arguments (call, &in);
  tps_reader_struct_begin (&in);
  while (tps_reader_field (&in, &id, &type))
    if (id >= 1 && id <= 3 && read_field (&in, id, type, arguments))
      arguments->seen |= 1u << (id - 1);
    else
      tps_reader_skip (&in, type);
  tps_reader_struct_end (&in);
  return tps_arguments_check (arguments->seen, names, error);
}

/* A value that is too long is cut behind the first byte too many: it will be refused, and need not be copied. */
static GBytes *
read_bytes (TpsReader *in)
{
  TpsBytesView view = tps_reader_binary (in);

  return g_bytes_new (view.data, MIN (view.n_bytes, TPS_RENDEZVOUS_MAX_VALUE_BYTES + 1));
}

static gboolean
read_push (TpsReader *in, Arguments *arguments)
{
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (id == 1 && type == TPS_WIRE_BINARY)
      arguments->client = tps_arguments_dup_string (in);
    else if (id == 2 && type == TPS_WIRE_I64)
      arguments->sequence = tps_reader_i64 (in);
    else
      tps_reader_skip (in, type);
  tps_reader_struct_end (in);
  return TRUE;
}

static gboolean
read_key (TpsReader *in, Arguments *arguments)
{
  arguments->key = tps_arguments_dup_string (in);
  return TRUE;
}

static void
answer (TpsCall *call, gboolean ok, const GError *error)
{
  if (ok)
    tps_call_reply (call, NULL, NULL);
  else
    tps_call_reply_error (call, error);
}

/* ---- put ------------------------------------------------------------------------------------ */

static gboolean
read_put_field (TpsReader *in, gint16 id, TpsWireType type, Arguments *arguments)
{
  if (type != TPS_WIRE_BINARY || id > 2)
    return FALSE;
  if (id == 1)
    return read_key (in, arguments);
  arguments->value = read_bytes (in);
  return TRUE;
}

static void
handle_put (TpsCall *call, gpointer service)
{
  static const gchar *const names[] = { "key", "value", NULL };
  TpsRendezvous *rendezvous = service;
  g_auto (Arguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;
  gboolean ok;

  ok = read_arguments (call, read_put_field, names, &arguments, &error)
       && tps_rendezvous_store_put (rendezvous->store, arguments.key, arguments.value, &error);
  answer (call, ok, error);
}

/* ---- get ------------------------------------------------------------------------------------ */

static gboolean
read_get_field (TpsReader *in, gint16 id, TpsWireType type, Arguments *arguments)
{
  if (id == 1 && type == TPS_WIRE_BINARY)
    return read_key (in, arguments);
  if (id != 2 || type != TPS_WIRE_I32)
    return FALSE;
  arguments->timeout_ms = tps_reader_i32 (in);
  return TRUE;
}

static void
write_value (TpsWriter *out, gconstpointer data)
{
  gsize n_bytes;
  gconstpointer bytes = g_bytes_get_data ((GBytes *) (gsize) data, &n_bytes);

  tps_writer_field (out, 0, TPS_WIRE_BINARY);
  tps_writer_binary (out, bytes, n_bytes);
}

static void
answer_get (gpointer data, GBytes *value, const GError *error)
{
  TpsCall *call = data;

  if (value != NULL)
    tps_call_reply (call, write_value, value);
  else
    tps_call_reply_error (call, error);
}

static void
wait_for_key (TpsRendezvous *rendezvous, TpsCall *call, const Arguments *arguments)
{
  gint64 deadline_ns = tps_clock_now_ns () + (gint64) arguments->timeout_ms * 1000000;

  tps_rendezvous_store_get (rendezvous->store, arguments->key, deadline_ns, answer_get, call);
  tps_mutex_lock (&rendezvous->lock);
  arm_timer (rendezvous);
  tps_mutex_unlock (&rendezvous->lock);
}

/* Whether an answer that `peek` did not have may be waited for; sets the error where not. */
static gboolean
may_wait_for_key (TpsCall *call, const Arguments *arguments, GError **error)
{
  if (arguments->timeout_ms == 0 || !g_error_matches (*error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    return FALSE;
  g_clear_error (error);
  if (tps_call_may_wait (call))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "key %s is not there, and this server cannot wait: it serves one call at a time",
               arguments->key);
  return FALSE;
}

static gboolean
check_timeout (const Arguments *arguments, GError **error)
{
  if (arguments->timeout_ms >= 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "timeout_ms is %d: expected 0 or more",
               arguments->timeout_ms);
  return FALSE;
}

static void
handle_get (TpsCall *call, gpointer service)
{
  static const gchar *const names[] = { "key", "timeout_ms", NULL };
  TpsRendezvous *rendezvous = service;
  g_auto (Arguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) value = NULL;

  if (read_arguments (call, read_get_field, names, &arguments, &error)
      && check_timeout (&arguments, &error))
    {
      value = tps_rendezvous_store_peek (rendezvous->store, arguments.key, &error);
      if (value == NULL && may_wait_for_key (call, &arguments, &error))
        {
          wait_for_key (rendezvous, call, &arguments);
          return;
        }
    }
  answer_get (call, value, error);
}

/* ---- add ------------------------------------------------------------------------------------ */

static gboolean
read_add_field (TpsReader *in, gint16 id, TpsWireType type, Arguments *arguments)
{
  if (id == 1 && type == TPS_WIRE_BINARY)
    return read_key (in, arguments);
  if (id == 3 && type == TPS_WIRE_STRUCT)
    return read_push (in, arguments);
  if (id != 2 || type != TPS_WIRE_I64)
    return FALSE;
  arguments->amount = tps_reader_i64 (in);
  return TRUE;
}

static void
write_sum (TpsWriter *out, gconstpointer data)
{
  tps_writer_field (out, 0, TPS_WIRE_I64);
  tps_writer_i64 (out, *(const gint64 *) data);
}

static void
handle_add (TpsCall *call, gpointer service)
{
  static const gchar *const names[] = { "key", "amount", NULL };
  TpsRendezvous *rendezvous = service;
  g_auto (Arguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;
  gint64 sum = 0;

  if (read_arguments (call, read_add_field, names, &arguments, &error))
    {
      TpsRendezvousPush push = { arguments.client, arguments.sequence };

      if (tps_rendezvous_store_add (rendezvous->store, arguments.key, arguments.amount, &push, &sum,
                                    &error))
        {
          tps_call_reply (call, write_sum, &sum);
          return;
        }
    }
  tps_call_reply_error (call, error);
}

/* ---- remove --------------------------------------------------------------------------------- */

static gboolean
read_remove_field (TpsReader *in, gint16 id, TpsWireType type, Arguments *arguments)
{
  return id == 1 && type == TPS_WIRE_BINARY && read_key (in, arguments);
}

static void
handle_remove (TpsCall *call, gpointer service)
{
  static const gchar *const names[] = { "prefix", NULL };
  TpsRendezvous *rendezvous = service;
  g_auto (Arguments) arguments = { NULL };
  g_autoptr (GError) error = NULL;
  gboolean ok;

  ok = read_arguments (call, read_remove_field, names, &arguments, &error)
       && tps_rendezvous_store_remove (rendezvous->store, arguments.key, &error);
  answer (call, ok, error);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void
shut_down (gpointer object)
{
  TpsRendezvous *rendezvous = object;

  tps_rendezvous_store_shut_down (rendezvous->store);
}

static const TpsMethod methods[] = {
  { "put", handle_put, FALSE },
  { "get", handle_get, FALSE },
  { "add", handle_add, FALSE },
  { "remove", handle_remove, FALSE },
  { NULL },
};

TpsService
tps_rendezvous_service (TpsRendezvous *rendezvous)
{
  return (TpsService) {
    .name = "Rendezvous", .methods = methods, .object = rendezvous, .shut_down = shut_down
  };
}
