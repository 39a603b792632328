/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/plugin/glib/guarded_store.h"

#include "runtime/base/error.h"

typedef struct
{
  TpsRendezvousHandler parent;
} GuardedStore;

typedef struct
{
  TpsRendezvousHandlerClass parent;
} GuardedStoreClass;

G_DEFINE_TYPE (GuardedStore, guarded_store, TPS_TYPE_RENDEZVOUS_HANDLER)

static gint n_puts;

static gboolean
put (TpsWireRendezvousIf *iface, const gchar *key, const GByteArray *value,
     TpsWireServiceError **failure, GError **error)
{
  g_atomic_int_inc (&n_puts);
  return TPS_WIRE_RENDEZVOUS_HANDLER_CLASS (guarded_store_parent_class)
      ->put (iface, key, value, failure, error);
}

static gboolean
refuse_remove (TpsWireRendezvousIf *iface, const gchar *prefix, TpsWireServiceError **failure,
               GError **error)
{
  g_autoptr (GError) reason = g_error_new (TPS_ERROR, TPS_ERROR_PERMISSION_DENIED,
                                           "prefix %s: keys stay here", prefix);

  *failure = tps_service_error_to_wire (reason);
  return FALSE;
}

static void
guarded_store_init (GuardedStore *store)
{
}

static void
guarded_store_class_init (GuardedStoreClass *klass)
{
  TPS_WIRE_RENDEZVOUS_HANDLER_CLASS (klass)->put = put;
  TPS_WIRE_RENDEZVOUS_HANDLER_CLASS (klass)->remove = refuse_remove;
}

guint
guarded_store_count_puts (void)
{
  return (guint) g_atomic_int_get (&n_puts);
}
