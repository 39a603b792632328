"""Writes handlers.h and handlers.c: one class per service of the IDL. Its methods convert the
arguments of a generated C GLib handler to a message for a TpsPlugin, and the reply to the results
(handler_call.h).

usage: handlers.py HEADER SOURCE FILE.json...

The files are those of //thrift:json. The compiler checks the signatures against those of the
generated code.
"""

import sys

from contract import Contract, snake

NAMESPACE = "TpsWire"
SCALARS = {"bool": "gboolean", "i32": "gint32", "i64": "gint64"}

BEGIN_HEADER = """/* Made by plugin/glib/handlers.py from the files of thrift. */

/* The classes that implement generated handlers on a TpsPlugin; see plugin/glib/handler.h. */

#pragma once

#include <thrift/c_glib/processor/thrift_dispatch_processor.h>

G_BEGIN_DECLS

"""

CLASS_HEADER = """
#define TPS_TYPE_{upper}_HANDLER (tps_{lower}_handler_get_type ())

typedef struct
{{
  TpsWire{name}Handler parent;
}} Tps{name}Handler;

typedef struct
{{
  TpsWire{name}HandlerClass parent;
}} Tps{name}HandlerClass;

GType tps_{lower}_handler_get_type (void);
"""

BEGIN_SOURCE = """/* Made by plugin/glib/handlers.py from the files of thrift. */

#include "plugin/glib/handlers.h"

#include "plugin/glib/handler_call.h"

"""

CLASS_SOURCE = """/* ---- {name} ---- */

G_DEFINE_TYPE (Tps{name}Handler, tps_{lower}_handler, TPS_WIRE_TYPE_{upper}_HANDLER)
{methods}
static void
tps_{lower}_handler_init (Tps{name}Handler *handler)
{{
}}

static void
tps_{lower}_handler_class_init (Tps{name}HandlerClass *klass)
{{
{slots}}}

"""

METHOD_SOURCE = """
static gboolean
{lower}_{method} ({parameters})
{{
  TpsHandlerCall call;
  gpointer client;

  tps_handler_call_begin (&call, iface, "{method}");
{puts}  client = tps_handler_call_run (&call, TPS_WIRE_TYPE_{upper}_CLIENT);
{reset}  if (client != NULL)
    tps_wire_{lower}_client_recv_{method} ({results});
  return tps_handler_call_end (&call, failure, error);
}}
"""


TABLES_SOURCE = """const TpsHandlerService tps_handler_services[] = {{
{services}  {{ NULL }},
}};

const TpsGetType tps_handler_wire_types[] = {{
{types}}};
const guint tps_handler_n_wire_types = G_N_ELEMENTS (tps_handler_wire_types);
"""


def argument(type_):
    """(C type, function that writes it) of an argument."""
    if type_.id == "list":
        return {"i64": ("const GArray *", "i64s"), "string": ("const GPtrArray *", "strings"),
                "struct": ("const GPtrArray *", "structs")}[type_.elem.id]
    if type_.id == "enum":
        return "const %s%s " % (NAMESPACE, type_.name), "i32"
    if type_.id == "struct":
        return "const %s%s *" % (NAMESPACE, type_.name), \
            "push" if type_.name == "PushId" else "struct"
    if type_.id in SCALARS:
        return "const %s " % SCALARS[type_.id], type_.id
    return {"string": ("const gchar *", "string"), "binary": ("const GByteArray *", "binary"),
            "map": ("const GHashTable *", "texts")}[type_.id]


def result(type_):
    """(C type, statement that prepares it) of a result."""
    if type_.id == "list":
        if type_.elem.id != "struct":
            sys.exit("handlers.py: no code for a list of %s as a result" % type_.elem.id)
        return "GPtrArray **", "  tps_handler_reset_list (_return);\n"
    if type_.id == "struct":
        return "%s%s **" % (NAMESPACE, type_.name), \
            "  tps_handler_reset_struct ((gpointer *) _return, TPS_WIRE_TYPE_%s);\n" \
            % snake(type_.name).upper()
    if type_.id in SCALARS:
        return SCALARS[type_.id] + " *", ""
    return {"string": ("gchar **", "  g_clear_pointer (_return, g_free);\n"),
            "binary": ("GByteArray **", "  g_clear_pointer (_return, g_byte_array_unref);\n")
            }[type_.id]


def write_method(method):
    lower = snake(method.service)
    parameters = ["%s%sIf *iface" % (NAMESPACE, method.service)]
    results = ["client"]
    puts = reset = ""
    if method.result is not None:
        result_type, reset = result(method.result)
        parameters.append(result_type + "_return")
        results.append("_return")
    for field in method.arguments:
        c_type, writer = argument(field.type)
        parameters.append(c_type + field.name)
        puts += "  tps_handler_call_put_%s (&call, %d, %s);\n" % (writer, field.id, field.name)
    parameters += ["TpsWireServiceError **failure", "GError **error"]
    results += ["failure", "&call.error"]
    return METHOD_SOURCE.format(lower=lower, upper=lower.upper(), method=method.name,
                                parameters=", ".join(parameters), puts=puts, reset=reset,
                                results=", ".join(results))


def write_class(service, methods):
    lower = snake(service)
    slots = "".join("  TPS_WIRE_%s_HANDLER_CLASS (klass)->%s = %s_%s;\n"
                    % (lower.upper(), each.name, lower, each.name) for each in methods)
    return CLASS_SOURCE.format(name=service, lower=lower, upper=lower.upper(), slots=slots,
                               methods="".join(write_method(each) for each in methods))


def write_tables(contract, services):
    types = ["tps_wire_%s_get_type" % snake(name) for name in contract.structs]
    types += ["tps_wire_%s_%s_%s_get_type" % (snake(each.service), each.name, kind)
              for each in contract.methods for kind in ("args", "result")]
    rows = ['  { "%s", tps_%s_handler_get_type, tps_wire_%s_processor_get_type },\n'
            % (service, snake(service), snake(service)) for service in services]
    return TABLES_SOURCE.format(services="".join(rows),
                                types="".join("  %s,\n" % each for each in types))


def main():
    header, source = sys.argv[1:3]
    contract = Contract(sys.argv[3:])
    services = {name: methods for file in contract.files
                for name, methods in file.services.items()}
    with open(header, "w", encoding="utf-8") as file:
        file.write(BEGIN_HEADER)
        file.writelines('#include "tps_wire_%s.h"\n' % snake(service) for service in services)
        file.writelines(CLASS_HEADER.format(name=service, lower=snake(service),
                                            upper=snake(service).upper())
                        for service in services)
        file.write("\nG_END_DECLS\n")
    with open(source, "w", encoding="utf-8") as file:
        file.write(BEGIN_SOURCE)
        file.writelines(write_class(*each) for each in services.items())
        file.write(write_tables(contract, services))


if __name__ == "__main__":
    main()
