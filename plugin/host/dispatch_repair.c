/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

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

#include <thrift/c_glib/processor/thrift_dispatch_processor.h>

#include "plugin/host/library.h"
#include "runtime/base/sync.h"

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
static TpsMutex repair_lock = TPS_MUTEX_INIT; /* held while classes are repaired */

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
  tps_mutex_lock (&repair_lock);
  for (; type != THRIFT_TYPE_DISPATCH_PROCESSOR; type = g_type_parent (type))
    repair_class (type);
  tps_mutex_unlock (&repair_lock);
}
