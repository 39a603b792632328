"""Writes handlers.h and handlers.c: one class per service of the IDL. Its methods convert the
arguments of a generated C GLib handler to a message for a TpsPlugin, and the reply to the results
(handler_call.h).

usage: handlers.py HEADER SOURCE FILE.thrift...

It parses the part of the Thrift language that thrift/*.thrift uses; anything else is an error. The
compiler checks the signatures against those of the generated code.
"""

import re
import sys

NAMESPACE = "TpsWire"
COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
SERVICE = re.compile(r"^service\s+(\w+)\s*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
METHOD = re.compile(
    r"([\w.]+(?:<[\w.]+>)?)\s+(\w+)\s*\(([^)]*)\)"
    r"\s*throws\s*\(1: (?:node\.)?ServiceError failure\)")
ARGUMENT = re.compile(r"(\d+):\s*([\w.]+(?:<[\w.,]+>)?)\s+(\w+)\s*(?:,|$)")
STRUCT = re.compile(r"^(?:struct|exception|union)\s+(\w+)", re.MULTILINE)
ENUM = re.compile(r"^enum\s+(\w+)", re.MULTILINE)

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


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def base_name(thrift_type):
    """The name of a type, or of a list's element type, without the file's prefix."""
    return re.search(r"(\w+)>?$", thrift_type).group(1)


class Idl:
    def __init__(self, texts):
        code = COMMENT.sub("", "\n".join(texts))
        self.structs = STRUCT.findall(code)
        self.enums = set(ENUM.findall(code))
        self.services = {name: [self.method(name, *each) for each in METHOD.findall(body)]
                         for name, body in sorted(SERVICE.findall(code))}
        for name, body in SERVICE.findall(code):
            left = METHOD.sub("", body).split()
            if left:
                sys.exit("handlers.py: %s: cannot read %s" % (name, " ".join(left)))

    def method(self, service, result, name, arguments):
        left = ARGUMENT.sub("", arguments).strip()
        if left:
            sys.exit("handlers.py: %s.%s: cannot read %s" % (service, name, left))
        return result, name, ARGUMENT.findall(arguments)

    def argument(self, thrift_type):
        """(C type, function that writes it) of an argument."""
        name = base_name(thrift_type)
        if thrift_type in SCALARS:
            return "const %s " % SCALARS[thrift_type], thrift_type
        if thrift_type == "string":
            return "const gchar *", "string"
        if thrift_type == "binary":
            return "const GByteArray *", "binary"
        if thrift_type == "list<i64>":
            return "const GArray *", "i64s"
        if thrift_type == "list<string>":
            return "const GPtrArray *", "strings"
        if thrift_type == "map<string,string>":
            return "const GHashTable *", "texts"
        if thrift_type.startswith("list<"):
            self.check_struct(name)
            return "const GPtrArray *", "structs"
        if name in self.enums:
            return "const %s%s " % (NAMESPACE, name), "i32"
        self.check_struct(name)
        return "const %s%s *" % (NAMESPACE, name), "push" if name == "PushId" else "struct"

    def result(self, thrift_type):
        """(C type, statement that prepares it) of a result."""
        name = base_name(thrift_type)
        if thrift_type == "void":
            return None, ""
        if thrift_type in SCALARS:
            return SCALARS[thrift_type] + " *", ""
        if thrift_type == "string":
            return "gchar **", "  g_clear_pointer (_return, g_free);\n"
        if thrift_type == "binary":
            return "GByteArray **", "  g_clear_pointer (_return, g_byte_array_unref);\n"
        if thrift_type.startswith("list<"):
            self.check_struct(name)
            return "GPtrArray **", "  tps_handler_reset_list (_return);\n"
        self.check_struct(name)
        return "%s%s **" % (NAMESPACE, name), \
            "  tps_handler_reset_struct ((gpointer *) _return, %s);\n" % self.type_macro(name)

    def check_struct(self, name):
        if name not in self.structs:
            sys.exit("handlers.py: no code for type %s" % name)

    def type_macro(self, name):
        return "TPS_WIRE_TYPE_" + snake(name).upper()


def write_method(idl, service, result, name, arguments):
    result_type, reset = idl.result(result)
    parameters = ["%s%sIf *iface" % (NAMESPACE, service)]
    results = ["client"]
    puts = ""
    if result_type:
        parameters.append(result_type + "_return")
        results.append("_return")
    for number, thrift_type, argument in arguments:
        c_type, writer = idl.argument(thrift_type)
        parameters.append(c_type + argument)
        puts += "  tps_handler_call_put_%s (&call, %s, %s);\n" % (writer, number, argument)
    parameters += ["TpsWireServiceError **failure", "GError **error"]
    results += ["failure", "&call.error"]
    return METHOD_SOURCE.format(lower=snake(service), upper=snake(service).upper(), method=name,
                                parameters=", ".join(parameters), puts=puts, reset=reset,
                                results=", ".join(results))


def write_class(idl, service, methods):
    lower = snake(service)
    slots = "".join("  TPS_WIRE_%s_HANDLER_CLASS (klass)->%s = %s_%s;\n"
                    % (lower.upper(), name, lower, name) for _, name, _ in methods)
    return CLASS_SOURCE.format(name=service, lower=lower, upper=lower.upper(), slots=slots,
                               methods="".join(write_method(idl, service, *each)
                                               for each in methods))


def write_tables(idl):
    types = ["tps_wire_%s_get_type" % snake(name) for name in idl.structs]
    types += ["tps_wire_%s_%s_%s_get_type" % (snake(service), method[1], kind)
              for service, methods in idl.services.items()
              for method in methods for kind in ("args", "result")]
    services = ['  { "%s", tps_%s_handler_get_type, tps_wire_%s_processor_get_type },\n'
                % (service, snake(service), snake(service)) for service in idl.services]
    return TABLES_SOURCE.format(services="".join(services),
                                types="".join("  %s,\n" % each for each in types))


def main():
    header, source = sys.argv[1:3]
    texts = []
    for path in sys.argv[3:]:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    idl = Idl(texts)
    with open(header, "w", encoding="utf-8") as file:
        file.write(BEGIN_HEADER)
        file.writelines('#include "tps_wire_%s.h"\n' % snake(service) for service in idl.services)
        file.writelines(CLASS_HEADER.format(name=service, lower=snake(service),
                                            upper=snake(service).upper())
                        for service in idl.services)
        file.write("\nG_END_DECLS\n")
    with open(source, "w", encoding="utf-8") as file:
        file.write(BEGIN_SOURCE)
        file.writelines(write_class(idl, service, methods)
                        for service, methods in idl.services.items())
        file.write(write_tables(idl))


if __name__ == "__main__":
    main()
