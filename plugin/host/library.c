/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/library.h"

#include <thrift/c_glib/processor/thrift_dispatch_processor.h>
#include <thrift/c_glib/thrift_application_exception.h>
#include <thrift/c_glib/thrift_struct.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_fd_transport.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>
#include <thrift/c_glib/transport/thrift_memory_buffer.h>
#include <thrift/c_glib/transport/thrift_server_socket.h>
#include <thrift/c_glib/transport/thrift_socket.h>

#include "runtime/base/sync.h"

/* Repairs of structs and transports: the original functions of all repaired classes are in a table,
 * where the wrappers find them. A published table is immutable. If there are new types, a new table
 * replaces it. A table is never freed, because a wrapper on another thread may be using it. A
 * process has few tables: one for each search that has found new types. */

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

static GQuark
failing_quark (void)
{
  return g_quark_from_static_string ("tps-fail");
}

void
tps_repair_readers_of (GType type, TpsFailProtocol fail)
{
  g_type_set_qdata (type, failing_quark (), (gpointer) (guintptr) fail);
}

/* If a struct cannot be read, for example because a required field is missing, generated code leaks
 * the value that it was reading. Therefore, if the protocol can report the error at the end of the
 * message, the wrapper returns success with the fields that have been read. */
static gint32
read_without_leak (ThriftStruct *object, ThriftProtocol *protocol, GError **error)
{
  const Original *original = find_original (G_OBJECT_TYPE (object));
  GError *reason = NULL;
  gint32 n_bytes = original->read (object, protocol, &reason);
  TpsFailProtocol fail = NULL;

  if (n_bytes >= 0 && reason == NULL)
    return n_bytes;
  if (reason != NULL)
    fail = (TpsFailProtocol) (guintptr) g_type_get_qdata (G_OBJECT_TYPE (protocol),
                                                          failing_quark ());
  if (fail != NULL)
    {
      fail (protocol, reason);
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
  guint n_structs = 0;
  g_autofree GType *structs = g_type_children (THRIFT_TYPE_STRUCT, &n_structs);
  Table *table;

  if (old != NULL)
    g_hash_table_foreach (old->originals, copy_entry, originals);
  for (guint i = 0; i < G_N_ELEMENTS (library_types); i++)
    add_class (originals, library_types[i]());
  for (guint i = 0; i < n_structs; i++)
    add_class (originals, structs[i]);
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

  TPS_LOCK_SCOPE (&repair_lock);
  table = table_new (atomic_load_explicit (&current, memory_order_relaxed));
  if (table != NULL)
    {
      atomic_store_explicit (&current, table, memory_order_release);
      g_hash_table_foreach (table->originals, patch_class, NULL);
    }
}

void
tps_register_types (const TpsGetType *get_types, guint n_get_types)
{
  for (guint i = 0; i < n_get_types; i++)
    get_types[i]();
  tps_repair_library ();
}

/* ---- processors ----------------------------------------------------------------------------- */

/* Repairs the method look-up of generated processors.
 *
 * A generated class has two slots for its dispatch function. The library calls
 * ThriftDispatchProcessorClass.dispatch_call. Generated subclasses chain up to a second slot, which
 * follows the structure of the parent's class. The dispatch function of a service looks up the
 * method; for an unknown method, it calls the function of the parent class. Up to 0.23, generated
 * code uses the parent of the *object's* class. For an object of a subclass, this is the class of
 * the calling function, so the function calls itself without end.
 *
 * The guard therefore replaces dispatch_call in every generated class. In the first round, it calls
 * the original function of the object's class, and in each further round the function of the next
 * ancestor. Finally, it calls the library's own function, which answers UNKNOWN_METHOD. */

typedef gboolean (*DispatchFunc) (ThriftDispatchProcessor *self, ThriftProtocol *in,
                                  ThriftProtocol *out, gchar *name, gint32 seqid, GError **error);

/* A call that is being dispatched on this thread. The list begins with the innermost call. */
typedef struct Round Round;
struct Round
{
  Round *outer;
  ThriftDispatchProcessor *self;
  ThriftProtocol *in;
  gchar *name;
  GType next; /* the type whose function is called when the guard is entered again */
};

static _Thread_local Round *rounds;
static TpsMutex processor_lock = TPS_MUTEX_INIT; /* held while classes are repaired */

static GQuark
original_quark (void)
{
  return g_quark_from_static_string ("tps-dispatch-call");
}

/* Returns the original function of the type's slot. If the class was not repaired, this is the
 * current function. */
static DispatchFunc
get_function (GType type)
{
  DispatchFunc *original = g_type_get_qdata (type, original_quark ());

  if (original != NULL)
    return *original;
  return THRIFT_DISPATCH_PROCESSOR_CLASS (g_type_class_peek (type))->dispatch_call;
}

static gboolean
guard_dispatch_call (ThriftDispatchProcessor *self, ThriftProtocol *in, ThriftProtocol *out,
                     gchar *name, gint32 seqid, GError **error)
{
  Round first = { rounds, self, in, name, G_OBJECT_TYPE (self) };
  Round *round = rounds;
  DispatchFunc function;
  gboolean ok;

  if (round == NULL || round->self != self || round->in != in || round->name != name)
    rounds = round = &first;
  /* Skip classes that were not repaired: the slot of a class that was registered after the repair
   * contains this guard, or a function that has chained up to it. */
  while (g_type_get_qdata (round->next, original_quark ()) == NULL
         && round->next != THRIFT_TYPE_DISPATCH_PROCESSOR)
    round->next = g_type_parent (round->next);
  function = get_function (round->next);
  if (round->next != THRIFT_TYPE_DISPATCH_PROCESSOR)
    round->next = g_type_parent (round->next);
  ok = function (self, in, out, name, seqid, error);
  if (round == &first)
    rounds = first.outer;
  return ok;
}

/* Returns the function of a generated class that does not set the library's slot; NULL = it sets
 * the slot. The generators 0.23 and 0.24 produce such classes, which add exactly one slot to the
 * class of the parent. */
static DispatchFunc
find_generated_slot (GType type, ThriftDispatchProcessorClass *klass)
{
  GTypeQuery own;
  GTypeQuery parent;

  g_type_query (type, &own);
  g_type_query (g_type_parent (type), &parent);
  if (own.class_size != parent.class_size + sizeof (DispatchFunc)
      || klass->dispatch_call != get_function (THRIFT_TYPE_DISPATCH_PROCESSOR))
    return NULL;
  return G_STRUCT_MEMBER (DispatchFunc, klass, parent.class_size);
}

static void
repair_class (GType type)
{
  ThriftDispatchProcessorClass *klass = g_type_class_ref (type); /* kept: the repair must last */
  DispatchFunc *original;
  DispatchFunc generated;

  if (g_type_get_qdata (type, original_quark ()) != NULL)
    return;
  generated = find_generated_slot (type, klass);
  original = g_new (DispatchFunc, 1);
  *original = generated != NULL ? generated : klass->dispatch_call;
  g_type_set_qdata (type, original_quark (), original);
  klass->dispatch_call = guard_dispatch_call;
}

void
tps_repair_processor_class (ThriftProcessor *processor)
{
  GType type = G_OBJECT_TYPE (processor);

  if (!THRIFT_IS_DISPATCH_PROCESSOR (processor))
    return;
  TPS_LOCK_SCOPE (&processor_lock);
  for (; type != THRIFT_TYPE_DISPATCH_PROCESSOR; type = g_type_parent (type))
    repair_class (type);
}
