/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/dispatch.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/machine/tuning.h"

/* The largest head that is decoded in the short lane of the workers. I/O threads decode heads of at
 * most `inline_bytes`. Decoding may be slow, because a head may contain thousands of values that
 * need separate allocations. */
#define MAX_SHORT_HEAD_BYTES (1 << 20)

typedef struct
{
  const TpsMethod *method;
  const TpsService *service; /* in the dispatcher's list */
  TpsMethodMetrics *metrics; /* in the dispatcher's list; NULL = calls are not counted */
  TpsGuardedMethod guarded;  /* "Service:*" for methods that the service does not list */
} Target;

struct TpsDispatcher
{
  TpsRefcount refcount;
  GArray *services;    /* of TpsService */
  GHashTable *targets; /* from a method's name, as sent, with or without its service, to Target */
  GHashTable *others;  /* from a service with handle_other ("" = the default one) to Target */
  TpsMetrics *metrics; /* NULL = no metrics */
  GPtrArray *method_metrics; /* of TpsMethodMetrics, owned */
  TpsMethodMetrics *unknown; /* of unknown methods; NULL = no metrics */
  TpsCallContext context;
};

/* ---- tables --------------------------------------------------------------------------------- */

static Target *
target_new (const TpsMethod *method, const TpsService *service)
{
  Target *target = g_new0 (Target, 1);

  target->method = method;
  target->service = service;
  target->guarded = (TpsGuardedMethod) {
    .name = g_strconcat (service->name, ":", method->rpc != NULL ? method->rpc->name : "*", NULL),
    .right = method->rpc != NULL ? method->right : service->hooks->other_right,
    .id = TPS_METHOD_NO_ID,
  };
  return target;
}

static void
target_free (gpointer data)
{
  Target *target = data;

  g_free (target->guarded.name);
  g_free (target);
}

static void
add_target (TpsDispatcher *dispatcher, gchar *name, const TpsMethod *method,
            const TpsService *service)
{
  g_hash_table_insert (dispatcher->targets, name, target_new (method, service));
}

/* Represents all methods that a service does not list. They are handled by handle_other() of the
 * service. */
static const TpsMethod other_method = { .place = TPS_METHOD_LONG };

static const TpsService *
find_service (const TpsDispatcher *dispatcher, const gchar *name, gsize n_bytes)
{
  for (guint i = 0; i < dispatcher->services->len; i++)
    {
      const TpsService *service = &g_array_index (dispatcher->services, TpsService, i);

      if (strlen (service->name) == n_bytes && memcmp (service->name, name, n_bytes) == 0)
        return service;
    }
  return NULL;
}

/* Refuses services with a method that requires no right: the initialiser may lack the right. */
static gboolean
check_rights (const TpsService *service, GError **error)
{
  const TpsMethod *method = service->methods;

  while (method != NULL && method->rpc != NULL && method->right != TPS_RIGHT_UNSET)
    method++;
  if (method != NULL && method->rpc != NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "method %s:%s declares no right",
                     service->name, method->rpc->name);
  if (service->hooks != NULL && service->hooks->handle_other != NULL
      && service->hooks->other_right == TPS_RIGHT_UNSET)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "service %s declares no right for its other methods", service->name);
  return TRUE;
}

static gboolean
add_services (TpsDispatcher *dispatcher, const TpsService *services, guint n_services,
              const gchar *default_service, GError **error)
{
  if (default_service == NULL && n_services == 1)
    default_service = services[0].name;
  for (guint i = 0; i < n_services; i++)
    {
      if (find_service (dispatcher, services[i].name, strlen (services[i].name)) != NULL)
        return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "service %s is given twice",
                         services[i].name);
      if (!check_rights (&services[i], error))
        return FALSE;
      g_array_append_val (dispatcher->services, services[i]);
    }
  /* Targets point to elements of the list, which is complete now and does not move any more. */
  for (guint i = 0; i < dispatcher->services->len; i++)
    {
      const TpsService *service = &g_array_index (dispatcher->services, TpsService, i);
      gboolean is_default = g_strcmp0 (service->name, default_service) == 0;

      for (const TpsMethod *method = service->methods; method != NULL && method->rpc != NULL;
           method++)
        {
          add_target (dispatcher, g_strdup_printf ("%s:%s", service->name, method->rpc->name),
                      method, service);
          if (is_default)
            add_target (dispatcher, g_strdup (method->rpc->name), method, service);
        }
      if (service->hooks != NULL && service->hooks->handle_other != NULL)
        {
          g_hash_table_insert (dispatcher->others, g_strdup (service->name),
                               target_new (&other_method, service));
          if (is_default)
            g_hash_table_insert (dispatcher->others, g_strdup (""),
                                 target_new (&other_method, service));
        }
      if (service->hooks != NULL && service->hooks->keep_answer != NULL)
        dispatcher->context.keeper = service;
    }
  if (default_service == NULL
      || find_service (dispatcher, default_service, strlen (default_service)) != NULL)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "default service %s is not among the services", default_service);
}

TpsDispatcher *
tps_dispatcher_new (const TpsService *services, guint n_services, const gchar *default_service,
                    GError **error)
{
  TpsDispatcher *dispatcher = g_new0 (TpsDispatcher, 1);

  tps_refcount_init (&dispatcher->refcount);
  dispatcher->services = g_array_new (FALSE, FALSE, sizeof (TpsService));
  dispatcher->method_metrics = g_ptr_array_new_with_free_func (
      (GDestroyNotify) tps_method_metrics_free);
  dispatcher->targets = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, target_free);
  dispatcher->others = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, target_free);
  if (add_services (dispatcher, services, n_services, default_service, error))
    return dispatcher;
  tps_dispatcher_unref (dispatcher);
  return NULL;
}

static TpsMethodMetrics *
add_metrics (TpsDispatcher *dispatcher, const gchar *service, const gchar *method)
{
  g_autofree gchar *name = g_strconcat (service, ":", method, NULL);
  TpsMethodMetrics *metrics = tps_method_metrics_new (
      tps_metrics_get_counters (dispatcher->metrics), name);

  g_ptr_array_add (dispatcher->method_metrics, metrics);
  return metrics;
}

/* A method of the default service has two targets, which share their metrics. */
static void
count_methods (TpsDispatcher *dispatcher, const TpsService *service)
{
  for (const TpsMethod *method = service->methods; method != NULL && method->rpc != NULL; method++)
    {
      g_autofree gchar *name = g_strconcat (service->name, ":", method->rpc->name, NULL);
      Target *target = g_hash_table_lookup (dispatcher->targets, name);
      Target *unnamed = g_hash_table_lookup (dispatcher->targets, method->rpc->name);

      target->metrics = add_metrics (dispatcher, service->name, method->rpc->name);
      if (unnamed != NULL && unnamed->method == method)
        unnamed->metrics = target->metrics;
    }
}

/* All methods that a service does not list share their metrics, because peers choose the names. */
static void
count_others (TpsDispatcher *dispatcher, const TpsService *service)
{
  Target *target = g_hash_table_lookup (dispatcher->others, service->name);
  Target *unnamed = g_hash_table_lookup (dispatcher->others, "");

  if (target == NULL)
    return;
  target->metrics = add_metrics (dispatcher, service->name, "*");
  if (unnamed != NULL && unnamed->service == service)
    unnamed->metrics = target->metrics;
}

static const TpsFamily admin_calls = TPS_FAMILY (COUNTER, "admin_calls_total",
                                                 "Calls of methods that need the right admin.");

void
tps_dispatcher_set_metrics (TpsDispatcher *dispatcher, TpsMetrics *metrics)
{
  TpsCounters *counters;

  if (metrics == NULL)
    return;
  counters = tps_metrics_get_counters (metrics);
  dispatcher->metrics = tps_metrics_ref (metrics);
  dispatcher->unknown = tps_method_metrics_new (counters, "unknown");
  g_ptr_array_add (dispatcher->method_metrics, dispatcher->unknown);
  for (guint i = 0; i < dispatcher->services->len; i++)
    {
      const TpsService *service = &g_array_index (dispatcher->services, TpsService, i);

      count_methods (dispatcher, service);
      count_others (dispatcher, service);
    }
  dispatcher->context.admin = tps_counters_use_counter (counters, &admin_calls, NULL, NULL);
}

void
tps_dispatcher_set_access (TpsDispatcher *dispatcher, TpsAccess *access)
{
  GHashTableIter iter;
  gpointer target;

  g_hash_table_iter_init (&iter, dispatcher->targets);
  while (g_hash_table_iter_next (&iter, NULL, &target))
    tps_access_add_method (access, &((Target *) target)->guarded);
}

void
tps_dispatcher_set_tracer (TpsDispatcher *dispatcher, TpsTracer *tracer)
{
  dispatcher->context.tracer = tracer;
}

void
tps_dispatcher_set_transferred (TpsDispatcher *dispatcher, TpsDispatcher *transferred)
{
  dispatcher->context.transferred = tps_dispatcher_ref (transferred);
}

TPS_DEFINE_REF (TpsDispatcher, tps_dispatcher)

void
tps_dispatcher_unref (TpsDispatcher *dispatcher)
{
  if (!tps_refcount_dec (&dispatcher->refcount))
    return;
  g_ptr_array_unref (dispatcher->method_metrics);
  g_clear_pointer (&dispatcher->metrics, tps_metrics_unref);
  g_clear_pointer (&dispatcher->context.transferred, tps_dispatcher_unref);
  g_array_unref (dispatcher->services);
  g_hash_table_unref (dispatcher->targets);
  g_hash_table_unref (dispatcher->others);
  g_free (dispatcher);
}

void
tps_dispatcher_connection_closed (TpsDispatcher *dispatcher, gconstpointer connection)
{
  for (guint i = 0; i < dispatcher->services->len; i++)
    {
      const TpsService *service = &g_array_index (dispatcher->services, TpsService, i);

      if (service->connection_closed != NULL)
        service->connection_closed (service->object, connection);
    }
}

void
tps_dispatcher_shut_down (TpsDispatcher *dispatcher)
{
  for (guint i = 0; i < dispatcher->services->len; i++)
    {
      const TpsService *service = &g_array_index (dispatcher->services, TpsService, i);

      if (service->shut_down != NULL)
        service->shut_down (service->object);
    }
}

/* ---- rights --------------------------------------------------------------------------------- */

/* Returns TRUE if the caller has the right to call the method. A NULL `target` means that the
 * method does not exist. */
static gboolean
may_call (const Target *target, TpsCall *call, const gchar *name, GError **error)
{
  const TpsGrant *grant = call->grant;
  const gchar *colon = strchr (name, ':');
  g_autofree gchar *full_name = NULL;
  TpsGuardedMethod other = { .id = TPS_METHOD_NO_ID };

  if (grant == NULL)
    return TRUE;
  if (target == NULL)
    return tps_grant_check_name (grant, name, error);
  if (target->method != &other_method)
    return tps_grant_check_method (grant, &target->guarded, name, error);
  /* A method that the service does not list: its name contains the service. */
  full_name = g_strconcat (target->service->name, ":", colon != NULL ? colon + 1 : name, NULL);
  other.name = full_name;
  other.right = target->guarded.right;
  return tps_grant_check_method (grant, &other, name, error);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void
refuse_unknown (const TpsDispatcher *dispatcher, TpsCall *call, const gchar *name)
{
  const gchar *colon = strchr (name, ':');
  g_autofree gchar *text = NULL;

  if (colon == NULL)
    text = g_strdup_printf ("unknown method \"%s\": no such method in the default service", name);
  else if (find_service (dispatcher, name, (gsize) (colon - name)) == NULL)
    text = g_strdup_printf ("unknown service \"%.*s\" in \"%s\"", (gint) (colon - name), name,
                            name);
  else
    text = g_strdup_printf ("unknown method \"%s\"", name);
  tps_call_reply_exception (call, TPS_EXCEPTION_UNKNOWN_METHOD, text);
}

/* If the token came in the header of this message, its memory was limited as that of a peer without
 * rights, and a second attempt has the limit of others. */
static void
refuse_bodies (TpsCall *call, const TpsMessage *message)
{
  gsize n_needed;
  g_autoptr (GError) error = NULL;

  if (__builtin_add_overflow (message->charge.n_bytes, message->n_bytes_dropped, &n_needed))
    n_needed = G_MAXSIZE;
  if (message->n_bytes_free > 0 && tps_grant_has_rights (call->grant))
    {
      error = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                           "no room for %" G_GSIZE_FORMAT
                           " bytes: the caller was not known when the message began; try again on "
                           "this connection, or authenticate with a small call first",
                           message->n_bytes_refused);
      tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
    }
  else if (n_needed > message->pool_limit)
    error = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                         "the call needs %" G_GSIZE_FORMAT " bytes for its tensors, but all calls "
                         "together may use %" G_GSIZE_FORMAT " in this server (--max-pending-mib)",
                         n_needed, message->pool_limit);
  else
    {
      error = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                           "no room for %" G_GSIZE_FORMAT
                           " bytes: other calls use all memory for tensors; try again, or raise "
                           "--max-pending-mib",
                           message->n_bytes_refused);
      tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
    }
  tps_call_reply_error (call, error);
}

/* Prepares the call for its service. Returns FALSE if the call has been refused. */
static gboolean
open_service (TpsCall *call, const Target *target)
{
  const TpsServiceHooks *hooks = target->service->hooks;
  g_autoptr (GError) error = NULL;

  if (!target->service->borrows_shared
      || (hooks != NULL && hooks->has_log && target->method->is_a_command))
    call->copies_shared = TRUE;
  if (hooks == NULL || hooks->may_serve == NULL || hooks->may_serve (hooks->gate, &error))
    return TRUE;
  tps_call_reply_error (call, error);
  return FALSE;
}

static void
run_target (TpsCall *call, gpointer user_data)
{
  const Target *target = user_data;

  if (target->method == &other_method)
    target->service->hooks->handle_other (call, target->service->object);
  else
    target->method->handle (call, target->service->object);
}

static TpsMethodPlace
find_place (const TpsMethod *method, const TpsMessage *message)
{
  if (message->head->len > MAX_SHORT_HEAD_BYTES)
    return TPS_METHOD_LONG;
  if (message->head->len > tps_tuning_get ()->inline_bytes)
    return MAX (method->place, TPS_METHOD_ON_WORKER);
  return method->place;
}

static void
handle_target (TpsCall *call, const TpsMessage *message, Target *target)
{
  TpsMethodPlace place = find_place (target->method, message);

  if (!open_service (call, target))
    return;
  if (place == TPS_METHOD_INLINE)
    target->method->handle (call, target->service->object);
  else
    tps_call_run_on_worker (call, place == TPS_METHOD_LONG ? TPS_LANE_LONG : TPS_LANE_SHORT,
                            run_target, target, NULL);
}

static Target *
find_target (const TpsDispatcher *dispatcher, const gchar *name)
{
  Target *target = g_hash_table_lookup (dispatcher->targets, name);
  const gchar *colon;
  g_autofree gchar *service = NULL;

  if (target != NULL || g_hash_table_size (dispatcher->others) == 0)
    return target;
  colon = strchr (name, ':');
  if (colon == name)
    return NULL;
  service = g_strndup (name, colon != NULL ? (gsize) (colon - name) : 0);
  return g_hash_table_lookup (dispatcher->others, service);
}

void
tps_dispatcher_handle (TpsDispatcher *dispatcher, TpsMessage *message, const TpsCaller *caller,
                       const GError *refuse, const TpsCarrierOps *ops, gpointer carried)
{
  Target *target = find_target (dispatcher, message->name);
  TpsCall *call = tps_call_new (message, target != NULL ? target->method->rpc : NULL, ops, carried,
                                &dispatcher->context);
  g_autoptr (GError) refusal = NULL;

  if (caller != NULL)
    {
      call->grant = caller->grant;
      call->tenant = caller->tenant;
    }
  if (dispatcher->context.tracer != NULL)
    tps_call_begin_span (call);
  if (target != NULL)
    {
      call->method = &target->guarded;
      call->is_admin = target->guarded.right == TPS_RIGHT_ADMIN;
      message->has_secret = target->method->is_login;
    }
  call->metrics = target != NULL ? target->metrics : dispatcher->unknown;
  if (call->metrics != NULL)
    {
      tps_counter_add (call->metrics->requests, 1);
      tps_counter_add (call->metrics->request_bytes, message->head->len + message->n_bytes_bodies);
    }
  if (!tps_call_admit (call, target != NULL && target->method->is_login, &refusal))
    tps_call_reply_error (call, refusal);
  else if (!may_call (target, call, message->name, &refusal))
    tps_call_refuse (call, refusal);
  else if (message->kind != TPS_MESSAGE_CALL && message->kind != TPS_MESSAGE_ONEWAY)
    {
      g_autofree gchar *text = g_strdup_printf (
          "message type %d is neither a call (1) nor oneway (4)", (gint) message->kind);

      tps_call_reply_exception (call, TPS_EXCEPTION_INVALID_MESSAGE_TYPE, text);
    }
  else if (target == NULL)
    refuse_unknown (dispatcher, call, message->name);
  else if (message->n_bytes_refused > 0)
    refuse_bodies (call, message);
  else if (refuse != NULL)
    tps_call_reply_error (call, refuse);
  else
    handle_target (call, message, target);
}
