/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Repairs of structs and transports. Processors are repaired in dispatch_repair.c.
 *
 * The original functions of all repaired classes are in a table, where the wrappers find them. A
 * published table is immutable. If there are new types, a new table replaces it. A table is never
 * freed, because a wrapper on another thread may be using it. A process has few tables: one for
 * each search that has found new types. */

#include "plugin/host/library.h"

#include <thrift/c_glib/thrift_application_exception.h>
#include <thrift/c_glib/thrift_struct.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_fd_transport.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_memory_buffer.h>
#include <thrift/c_glib/transport/thrift_server_socket.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "plugin/host/protocol.h"
#include "runtime/base/sync.h"

typedef gint32 (*ReadFunc) (ThriftStruct *object, ThriftProtocol *protocol, GError **error);

typedef struct
{
  GType type;
  void (*finalize) (GObject *object);
  ReadFunc read; /* NULL = the type is not a struct */
} Original;

typedef struct Table Table;
struct Table
{
  const Table *previous;
  GHashTable *originals; /* GType -> Original * */
};

static TpsMutex repair_lock = TPS_MUTEX_INIT;
static _Atomic (const Table *) current; /* replaced under the lock, read without it */

/* Returns the entry of the type, or of its nearest ancestor with an entry; NULL = there is none. */
static const Original *
find_original (GType type)
{
  const Table *table = atomic_load_explicit (&current, memory_order_acquire);
  const Original *original = NULL;

  while (table != NULL && type != 0 && original == NULL)
    {
      original = g_hash_table_lookup (table->originals, GSIZE_TO_POINTER (type));
      type = g_type_parent (type);
    }
  return original;
}

/* ---- finalizers ----------------------------------------------------------------------------- */

static GQuark
finalizing_quark (void)
{
  return g_quark_from_static_string ("tps-finalizing");
}

/* Runs the original finalizer of the class, and then GObject's finalizer unless the original has
 * called it. The mark is the entry whose finalizer is running. GObject's finalizer drops all data
 * of the object, so a mark that is still present shows that this finalizer has not run. If a
 * subclass and its parent are both repaired, a chained-up call continues with the entry of the next
 * ancestor. */
static void
finalize_to_the_end (GObject *object)
{
  const Original *running = g_object_get_qdata (object, finalizing_quark ());
  const Original *original = find_original (running != NULL ? g_type_parent (running->type)
                                                            : G_OBJECT_TYPE (object));

  if (original == NULL)
    return;
  g_object_set_qdata (object, finalizing_quark (), (gpointer) (guintptr) original);
  original->finalize (object);
  if (g_object_get_qdata (object, finalizing_quark ()) != NULL)
    G_OBJECT_CLASS (g_type_class_peek (G_TYPE_OBJECT))->finalize (object);
}

/* ---- readers of structs --------------------------------------------------------------------- */

/* If a struct cannot be read, for example because a required field is missing, generated code leaks
 * the value that it was reading. Therefore, if the protocol can report the error at the end of the
 * message, the wrapper returns success with the fields that have been read. */
static gint32
read_without_leak (ThriftStruct *object, ThriftProtocol *protocol, GError **error)
{
  const Original *original = find_original (G_OBJECT_TYPE (object));
  GError *reason = NULL;
  gint32 n_bytes = original->read (object, protocol, &reason);

  if (n_bytes >= 0 && reason == NULL)
    return n_bytes;
  if (reason != NULL && TPS_IS_HOST_PROTOCOL (protocol))
    {
      tps_host_protocol_fail (TPS_HOST_PROTOCOL (protocol), reason);
      return 0;
    }
  if (reason != NULL && (error == NULL || *error == NULL))
    g_propagate_error (error, reason);
  else
    g_clear_error (&reason);
  return n_bytes < 0 ? n_bytes : -1;
}

/* ---- finding and patching ------------------------------------------------------------------- */

/* Other threads may read a slot of a class while it is replaced, so one atomic store replaces
 * it. */
#define REPLACE_SLOT(slot, func) __atomic_store_n (&(slot), (func), __ATOMIC_RELEASE)

static void
add_class (GHashTable *table, GType type)
{
  GObjectClass *klass;
  Original *original;

  if (g_hash_table_contains (table, GSIZE_TO_POINTER (type)))
    return;
  klass = g_type_class_ref (type); /* kept, so that the repair lasts */
  if (klass->finalize == finalize_to_the_end)
    return; /* inherited: the entry of the parent applies */
  original = g_new0 (Original, 1);
  original->type = type;
  original->finalize = klass->finalize;
  if (g_type_is_a (type, THRIFT_TYPE_STRUCT))
    original->read = THRIFT_STRUCT_CLASS (klass)->read;
  g_hash_table_insert (table, GSIZE_TO_POINTER (type), original);
}

static void
patch_class (gpointer key, gpointer value, gpointer user_data)
{
  const Original *original = value;
  GObjectClass *klass = g_type_class_peek (original->type);

  if (klass->finalize != finalize_to_the_end)
    REPLACE_SLOT (klass->finalize, finalize_to_the_end);
  if (original->read != NULL && THRIFT_STRUCT_CLASS (klass)->read != read_without_leak)
    REPLACE_SLOT (THRIFT_STRUCT_CLASS (klass)->read, read_without_leak);
}

static void
copy_entry (gpointer key, gpointer value, gpointer user_data)
{
  g_hash_table_insert (user_data, key, value);
}

static void
add_structs (GHashTable *table)
{
  guint n_types = 0;
  GType *types = g_type_children (THRIFT_TYPE_STRUCT, &n_types);

  for (guint i = 0; i < n_types; i++)
    add_class (table, types[i]);
  g_free (types);
}

/* Classes of the library whose finalizers do not chain up to GObject's. */
static const TpsGetType library_types[] = {
  thrift_application_exception_get_type,
  thrift_buffered_transport_get_type,
  thrift_fd_transport_get_type,
  thrift_framed_transport_get_type,
  thrift_memory_buffer_get_type,
  thrift_server_socket_get_type,
  thrift_socket_get_type,
};

/* Returns a copy of `old` (may be NULL) with all types that are registered now, or NULL if there
 * are no new types. */
static Table *
table_new (const Table *old)
{
  GHashTable *originals = g_hash_table_new (NULL, NULL);
  Table *table;

  if (old != NULL)
    g_hash_table_foreach (old->originals, copy_entry, originals);
  for (guint i = 0; i < G_N_ELEMENTS (library_types); i++)
    add_class (originals, library_types[i]());
  add_structs (originals);
  if (old != NULL && g_hash_table_size (old->originals) == g_hash_table_size (originals))
    {
      g_hash_table_unref (originals);
      return NULL;
    }
  table = g_new (Table, 1);
  table->previous = old;
  table->originals = originals;
  return table;
}

void
tps_repair_library (void)
{
  Table *table;

  tps_mutex_lock (&repair_lock);
  table = table_new (atomic_load_explicit (&current, memory_order_relaxed));
  if (table != NULL)
    {
      atomic_store_explicit (&current, table, memory_order_release);
      g_hash_table_foreach (table->originals, patch_class, NULL);
    }
  tps_mutex_unlock (&repair_lock);
}

void
tps_register_types (const TpsGetType *get_types, guint n_get_types)
{
  for (guint i = 0; i < n_get_types; i++)
    get_types[i]();
  tps_repair_library ();
}
