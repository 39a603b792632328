/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The handler of greeter.thrift, as for any server of Thrift C GLib. */

#include "greeter.h"

#include "hello_greeter.h"

typedef HelloGreeterHandler Greeter;
typedef HelloGreeterHandlerClass GreeterClass;

GType greeter_get_type (void);

G_DEFINE_TYPE (Greeter, greeter, HELLO_TYPE_GREETER_HANDLER)

static gboolean
greet (HelloGreeterIf *iface, gchar **reply, const gchar *name, GError **error)
{
  (void) iface;
  (void) error;
  *reply = g_strdup_printf ("hello %s", name != NULL ? name : "world");
  return TRUE;
}

static void
greeter_init (Greeter *greeter)
{
  (void) greeter;
}

static void
greeter_class_init (GreeterClass *klass)
{
  klass->greet = greet;
}

ThriftProcessor *
greeter_processor_new (void)
{
  GObject *handler = G_OBJECT (g_object_new (greeter_get_type (), NULL));
  GObject *processor = G_OBJECT (
      g_object_new (HELLO_TYPE_GREETER_PROCESSOR, "handler", handler, NULL));

  g_object_unref (handler);
  return THRIFT_PROCESSOR (processor);
}

const TpsGetType greeter_get_types[] = {
  hello_greeter_greet_args_get_type,
  hello_greeter_greet_result_get_type,
};
const guint greeter_n_get_types = G_N_ELEMENTS (greeter_get_types);
