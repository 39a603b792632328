/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Repairs the method look-up of generated processors.
 *
 * Generated code has two slots in each class: ThriftDispatchProcessorClass.dispatch_call, which the
 * library calls, and one of its own right behind the parent's class, which generated subclasses
 * chain to. A service's function looks for the method, and calls "the parent's" for an unknown one.
 * Up to 0.23 it takes the parent of the *object's* class, which for a subclass is the function
 * itself again. So the guard replaces every slot that the library calls. In the first round it
 * calls the original function of the object's class, in each further round that of the next
 * ancestor, and in the end the library's own function, which answers UNKNOWN_METHOD. */

#include <thrift/c_glib/processor/thrift_dispatch_processor.h>

#include "plugin/host/library.h"
#include "runtime/base/sync.h"

typedef gboolean (*DispatchFunc) (ThriftDispatchProcessor *self, ThriftProtocol *in,
                                  ThriftProtocol *out, gchar *name, gint32 seqid, GError **error);

/* A call in the slots of its object's class; the innermost call comes first. */
typedef struct Round Round;
struct Round
{
  Round *outer;
  ThriftDispatchProcessor *self;
  ThriftProtocol *in;
  gchar *name;
  GType next; /* its function is called when the guard is entered again */
};

static _Thread_local Round *rounds;
static TpsMutex repair_lock = TPS_MUTEX_INIT;

static GQuark
original_quark (void)
{
  return g_quark_from_static_string ("tps-dispatch-call");
}

/* The original function of the type's slot; for a class that was not repaired, the current one. */
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
  /* A subclass whose slot was set after the repair chains up to a repaired class: skip its own
   * slots. */
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

/* The function of a generated class with an empty library slot, as made by generators 0.23 and
 * 0.24: such a class adds exactly one slot to its parent's. */
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
  ThriftDispatchProcessorClass *klass = g_type_class_ref (type); /* kept, as the repair is */
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
