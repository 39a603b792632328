"""Writes wire_<file>.h and wire_<file>.c for each file of thrift/, and contract.c: C structs,
descriptors and methods (descriptor.h).

usage: wire.py FOLDER FILE.json...

A struct becomes a C struct with one member per field. The tables below name the values whose form
in C differs; hand-written code reads and writes these (wire_forms.h, train_forms.h).
"""

import os
import sys

from contract import Contract, camel, snake

# ---- forms in C that differ from the IDL --------------------------------------------------------

# Enum: (C type, prefix of its constants). Other enums are gint32.
ENUMS = {
    "DType": ("TpsDType", "TPS_DTYPE_"),
    "DurabilityMode": ("TpsDurability", "TPS_DURABILITY_"),
    "InitializerKind": ("TpsInitializerKind", "TPS_INITIALIZER_"),
    "OptimizerKind": ("TpsOptimizerKind", "TPS_OPTIMIZER_"),
    "Pooling": ("TpsPooling", "TPS_POOLING_"),
    "Rounding": ("TpsRounding", "TPS_ROUNDING_"),
    "SegmentKind": ("TpsSegmentKind", "TPS_SEGMENT_"),
    "SegmentUse": ("TpsSegmentUse", "TPS_SEGMENT_"),
    "TrainState": ("TpsTrainState", "TPS_TRAIN_"),
}

# Structs that are not generated: the C type with the members of the fields.
FORMS = {
    "BagGradient": "TpsBagGradientForm",
    "BagQuery": "TpsBagQueryForm",
    "Gradient": "TpsGradient",
    "Initializer": "TpsInitializer",
    "MetricSummary": "TpsMetricSummary",
    "Model": "TpsModelVersion",
    "NamedTensor": "TpsNamedTensor",
    "Optimizer": "TpsOptimizerSpec",
    "ServerAddress": "TpsServerAddress",
    "SharedSlice": "TpsSharedSlice",
    "SparseTensor": "TpsSparseForm",
    "TableSpec": "TpsTableSpecForm",
    "Tensor": "TpsTensorForm",
    "TrainBatch": "TpsTrainBatch",
    "TrainSpec": "TpsTrainPlan",
    "TrainStatus": "TpsTrainStatusForm",
}

# The C type of a value of such a struct, if it is another one.
VALUES = {
    "Model": "TpsModelVersion *",
    "SparseTensor": "TpsGradient",
    "TableSpec": "TpsTableSpec",
    "Tensor": "TpsTensor",
    "TrainStatus": "TpsTrainStatus",
}

# Functions of wire_forms.h that convert: tps_read_<struct>(), tps_write_<struct>(). The functions
# use the tables of fields, which are therefore not static.
READS = ("Gradient", "MetricSummary", "Model", "ServiceError", "SharedSlice", "SparseTensor",
         "TableSpec", "Tensor", "TrainStatus")
WRITES = ("Gradient", "Model", "SparseTensor", "TableSpec", "Tensor", "TrainStatus")

# C types that need no clearing.
PLAIN = ("TpsInitializer", "TpsOptimizerSpec", "TpsSharedSlice")

# Lists whose C type is a struct of its own.
LISTS = {"TableSpec": "TpsTableSpecs", "Tensor": "TpsTensorList"}
POINTERS = ("MetricSummary",)  # whose lists are GPtrArrays

# Structs that may be absent: the member that is then NULL.
OPTIONAL = {"PushId": "client"}

# Names of generated structs that do not follow from the IDL.
STRUCTS = {
    "LogBatch": "TpsWireLogBatch",
    "Segment": "TpsSegmentInfo",
    "SnapshotInfo": "TpsWireSnapshotInfo",
    "TransferState": "TpsWireTransferState",
}

# Structs of arguments that several methods share, or whose names do not follow from the method.
ARGUMENTS = {
    "add": "TpsRendezvousArguments",
    "begin_transfer": "TpsTransferArguments",
    "close_segments": "TpsSegmentIds",
    "get": "TpsRendezvousArguments",
    "get_chunk": "TpsTransferArguments",
    "lookup_rows_with_lsns": "TpsLookupRowsArguments",
    "put": "TpsRendezvousArguments",
    "release_segments": "TpsSegmentIds",
    "update_and_fetch_model": "TpsUpdateModelArguments",
}
# Those of bag_arguments.h.
BAGS = ("apply_bag_gradients", "lookup_bags")

# Members with other names; "": the value is the whole struct.
MEMBERS = {
    "Gradient.sparse": "",
    "Segment.bytes": "n_bytes",
    "SnapshotInfo.bytes": "n_bytes",
    "SnapshotInfo.increments": "n_increments",
    "SnapshotInfo.model": "has_model",
    "SnapshotInfo.tables": "n_tables",
    "TableSpec.device": "spec.place.device",
    "TableSpec.host_memory": "spec.place.is_host_memory",
    "Tensor.dtype": "shape.dtype",
    "TrainSpec.rpc_timeout_ms": "rpc_timeout_ns",
    "TrainStatus.error_code": "error_code",
    "TrainStatus.message": "message",
    "apply_bag_gradients.gradients": "",
    "close_segments.segments": "ids",
    "lookup_bags.queries": "",
    "open_segment.bytes": "n_bytes",
    "open_segment.segment_use": "use",
    "release_segments.segments": "ids",
}
PREFIXES = {"TableSpec": "spec.", "TrainStatus": "status."}  # of all other fields
SHARD_FIELDS = ("rows", "first_row", "shard_index", "shard_count", "shard_rows")
MEMBERS.update({"TableSpec." + name: name for name in SHARD_FIELDS})
HAS = {
    "TrainStatus.epoch_samples": "has_samples",
    "TrainStatus.loss": "status.has_loss",
    "TrainStatus.parameters_digest": "status.has_digest",
    "TrainStatus.samples": "has_samples",
}

# Fields with a kind of their own: (kind, its parameter, C type).
KINDS = {
    "BagGradient.gradient": ("tps_kind_bag_tensor", "&tps_bag_gradient_type", None),
    "BagQuery.indices": ("tps_kind_bag_tensor", "&tps_bag_indices_type", None),
    "BagQuery.offsets": ("tps_kind_bag_tensor", "&tps_bag_offsets_type", None),
    "BagQuery.weights": ("tps_kind_bag_tensor", "&tps_bag_weights_type", None),
    "Chunk.data": ("tps_kind_chunk_data", "NULL", "TpsChunkData"),
    "Gradient.weight": ("tps_kind_double", "NULL", None),
    "LargeAnswer.message": ("tps_kind_chunk_data", "NULL", "TpsChunkData"),
    "MetricSummary.samples_ms": ("tps_kind_samples", "NULL", None),
    "ServiceError.message": ("tps_kind_foreign_text", "NULL", "gchar *"),
    "SparseTensor.shape": ("tps_kind_dims", "NULL", None),
    "TableSpec.device": ("tps_kind_device", "NULL", None),
    "Tensor.data": ("tps_kind_tensor_data", "NULL", None),
    "Tensor.dtype": ("tps_kind_open_enum", "&tps_d_type_enum", None),
    "Tensor.shape": ("tps_kind_dims", "NULL", None),
    "TrainSpec.model_config": ("tps_kind_model_config", "NULL", None),
    "TrainSpec.rpc_timeout_ms": ("tps_kind_timeout", "NULL", None),
    "TrainSpec.trainer_config": ("tps_kind_json_config", "NULL", None),
    "apply_bag_gradients.gradients": ("tps_kind_bag_gradients", "&tps_bag_gradient_struct", None),
    "lookup_bags.queries": ("tps_kind_bag_queries", "&tps_bag_query_struct", None),
}

# Tensors with stricter rules: the descriptor is tps_<name>_struct (tensor_codec.h).
TENSORS = {
    "Gradient.dense": "device_tensor",
    "RowsWithLsns.lsns": "indices",
    "TrainBatch.input": "kept_tensor",
    "TrainBatch.target": "kept_tensor",
    "apply_row_gradients.gradient": "row_gradient",
    "assign_rows.indices": "indices",
    "lookup_bags": "device_tensor",
    "lookup_rows": "device_tensor",
    "lookup_rows.indices": "indices",
    "lookup_rows_with_lsns.indices": "indices",
}

# Structs whose descriptors thriftps/wire.h declares.
PUBLIC = ("Gradient", "Tensor")

# What the headers include, besides thriftps/wire.h.
INCLUDES = {
    "chunks": ["plugin/wire/descriptor.h"],
    "durability": ["runtime/embedding/table_spec.h"],
    "embedding_table": ["plugin/wire/bag_arguments.h", "runtime/embedding/table_spec.h"],
    "memory": ["plugin/memory/segment.h"],
    "node": ["plugin/wire/descriptor.h", "runtime/base/metrics.h", "runtime/device/backend.h"],
    "parameter_server": ["plugin/wire/wire_tensor.h", "runtime/tensor/model_version.h"],
    "rendezvous": ["plugin/wire/wire_tensor.h"],
    "session": [],
    "tensor": ["plugin/wire/tensor_codec.h"],
    "trainer": ["runtime/tensor/train_plan.h"],
}

# ---- values -------------------------------------------------------------------------------------

SCALARS = {"bool": "gboolean", "i32": "gint32", "i64": "gint64", "double": "gdouble"}


def c_name(struct):
    """The C struct with the members of the fields."""
    return FORMS.get(struct) or STRUCTS.get(struct, "Tps" + struct)


def is_generated(struct):
    return struct not in FORMS


def c_type(type_, size=None):
    """The C type of a value; of a list, that of its elements."""
    if type_.id == "struct":
        return VALUES.get(type_.name) or c_name(type_.name)
    if type_.id == "enum":
        return ENUMS.get(type_.name, ("gint32",))[0]
    if type_.id in SCALARS:
        return SCALARS[type_.id]
    return {"string": "gchar *", "binary": "guint8" if size else "GBytes *",
            "map": "GHashTable *"}[type_.id]


def result_type(type_):
    """The C type of a result."""
    if type_.id != "list":
        return c_type(type_)
    if type_.elem.id == "string":
        return "gchar **"
    if type_.elem.name in LISTS:
        return LISTS[type_.elem.name]
    if type_.elem.name in POINTERS:
        return "GPtrArray *"
    raise ValueError("no C type for a list of %s as a result: see LISTS" % c_type(type_.elem))


def join(kind, name):
    """A declaration: the pointer's star belongs to the name."""
    return kind + name if kind.endswith("*") else "%s %s" % (kind, name)


class Writer:
    """The text of one file of the IDL."""

    def __init__(self, contract, file):
        self.contract, self.file = contract, file
        self.header, self.source, self.constants = [], [], []

    # -- clearing --

    def clear_value(self, type_, member, size=None):
        """The statement that frees a member; None: there is nothing to free."""
        if size or type_.id in SCALARS or type_.id == "enum":
            return None
        if type_.id != "struct":
            free = {"string": "g_free", "binary": "g_bytes_unref", "map": "g_hash_table_unref"}
            return "g_clear_pointer (&%s, %s);" % (member, free[type_.id])
        kind = c_type(type_)
        if kind in PLAIN or kind.endswith("*"):
            return None
        if is_generated(type_.name) and not self.clears(self.contract.structs[type_.name].fields):
            return None
        return "%s_clear (&%s);" % (snake(kind), member)

    def clear_field(self, field):
        member = "value->" + self.member(field)
        if field.key in KINDS:
            kind = KINDS[field.key][2]
            return "g_clear_pointer (&%s, g_free);" % member if kind == "gchar *" \
                else "%s_clear (&%s);" % (snake(kind), member)
        if field.type.id != "list":
            return self.clear_value(field.type, member, field.annotations.get("size"))
        if field.type.elem.id == "string":
            return "g_clear_pointer (&%s, g_strfreev);" % member
        if field.type.elem.name in LISTS:
            return "%s_clear (&%s);" % (snake(LISTS[field.type.elem.name]), member)
        elem = self.clear_value(field.type.elem, member + "[i]")
        loop = "for (guint i = 0; i < value->n_%s; i++)\n    %s\n  " % (self.member(field), elem)
        return (loop if elem else "") + "g_clear_pointer (&%s, g_free);" % member

    def clears(self, fields):
        return [text for text in (self.clear_field(field) for field in fields) if text]

    # -- C structs --

    def member(self, field):
        owner = field.key.split(".")[0]
        return MEMBERS.get(field.key, PREFIXES.get(owner, "") + field.name)

    def presence(self, field, is_argument):
        wanted = field.annotations.get("presence")
        if wanted == "required" or field.required == "required":
            return "REQUIRED"
        if wanted == "always":
            return "DEFAULT"
        if is_argument:
            optional = "OPTIONAL" if field.type.id in ("struct", "string") else "DEFAULT"
            return optional if wanted == "optional" else "REQUIRED"
        if field.required == "optional":
            return "OPTIONAL"
        is_closed = field.type.id == "enum" and not self.contract.enums[field.type.name].is_open
        return "REQUIRED" if is_closed else "DEFAULT"

    @staticmethod
    def has_member(field):
        """The member that tells whether a field is set; None: the value tells it."""
        if field.has("presence", "explicit") or field.required == "optional" and \
                "size" in field.annotations:
            return HAS.get(field.key, "has_" + field.name)
        return None

    def declare(self, field):
        """The declarations of a field's members."""
        name, size = self.member(field), field.annotations.get("size")
        lines = ["gboolean %s;" % self.has_member(field)] if self.has_member(field) else []
        if field.key in KINDS:
            return lines + [join(KINDS[field.key][2], name) + ";"]
        if field.type.id != "list":
            end = "[%s];" % size if size else ";"
            return lines + [join(c_type(field.type, size), name) + end]
        elem = field.type.elem
        if elem.id == "string":
            return lines + ["gchar **%s;" % name]
        if elem.name in LISTS:
            return lines + [join(LISTS[elem.name], name) + ";"]
        return lines + ["guint n_%s;" % name, join(c_type(elem) + " *", name) + ";"]

    def write_struct_type(self, name, doc, fields):
        """A C struct, and a function that clears it if any field must be cleared."""
        self.header += comment(doc) + ["typedef struct", "{"]
        for field in fields:
            lines = self.declare(field)
            self.header += ["  " + line for line in comment(field.doc)]
            self.header += ["  " + line for line in lines]
        self.header += ["} %s;" % name, ""]
        clears = self.clears(fields)
        if clears:
            function = snake(name) + "_clear"
            self.header += [
                "/* Frees the members. */", "void %s (%s *value);" % (function, name),
                "G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (%s, %s)" % (name, function), ""]
            self.source += ["void", "%s (%s *value)" % (function, name), "{"]
            self.source += ["  " + text for text in clears]
            self.source += ["  *value = (%s) { 0 };" % name, "}", ""]

    # -- descriptors --

    def constant(self, text):
        if text not in self.constants:
            self.constants.append(text)

    def kind_of(self, type_, field, owner):
        """(kind, its parameter) of a value of `type_`, which is that of `field` or its element."""
        has = field.has if field else lambda *unused: False
        annotations = field.annotations if field else {}
        if type_.id == "enum":
            is_open = self.contract.enums[type_.name].is_open
            return "tps_kind_%senum" % ("open_" if is_open else ""), \
                "&tps_%s_enum" % snake(type_.name)
        if type_.id == "struct":
            return "tps_kind_struct", "&tps_%s_struct" % TENSORS.get(owner, snake(type_.name))
        if type_.id == "string":
            return "tps_kind_name" if has("text", "name") else "tps_kind_string", "NULL"
        if type_.id == "binary" and "size" in annotations:
            size = annotations["size"]
            self.constant("static const gsize size_%s = %s;" % (size, size))
            return "tps_kind_array", "&size_" + size
        if type_.id == "binary":
            return "tps_kind_bytes", "NULL"
        if type_.id == "double":
            optional = field is not None and field.required == "optional" \
                and annotations.get("presence") not in ("explicit", "always")
            return ("tps_kind_finite" if has("finite") else
                    "tps_kind_number" if optional else "tps_kind_double"), "NULL"
        if type_.id == "map":
            limits = annotations["max_entries"], annotations["max_bytes"]
            self.constant("static const TpsTextsLimits texts_%s_%s = { %s, %s };" % (limits * 2))
            return "tps_kind_texts", "&texts_%s_%s" % limits
        if "min" in annotations:
            least = annotations["min"]
            text = ">= 0" if least == "0" else "> %d" % (int(least) - 1)
            self.constant('static const TpsLimit min_%s = { %s, "%s" };' % (least, least, text))
            return "tps_kind_" + type_.id, "&min_" + least
        return "tps_kind_" + type_.id, "NULL"

    def list_of(self, type_, field, owner):
        """Defines a TpsList, and returns its name."""
        name = owner.replace(".", "_").lower() + "_list"
        kind, of = self.kind_of(type_.elem, field, owner)
        form = "STRV" if type_.elem.id == "string" else \
            "PTR_ARRAY" if type_.elem.name in POINTERS else "COUNTED"
        clear = ", .clear = tps_metric_summary_free_value" if form == "PTR_ARRAY" else ""
        self.source.append(
            "static const TpsList %s = { .elem = { .kind = &%s, .of = %s }, .form = TPS_LIST_%s, "
            ".elem_size = sizeof (%s)%s };" % (name, kind, of, form, c_type(type_.elem), clear))
        return "&" + name

    def row(self, field, struct, is_argument):
        """One row of a table of fields. `struct` None: the value is the whole argument."""
        kind, of = KINDS[field.key][:2] if field.key in KINDS else \
            ("tps_kind_list", self.list_of(field.type, field, field.key)) \
            if field.type.id == "list" else self.kind_of(field.type, field, field.key)
        member, has = self.member(field), self.has_member(field)
        offset = "0"
        if struct and member:
            is_counted = field.type.id == "list" and field.key not in KINDS \
                and field.type.elem.id != "string" and field.type.elem.name not in LISTS
            offset = "G_STRUCT_OFFSET (%s, %s)" % (struct, ("n_" if is_counted else "") + member)
        return '  { "%s", %d, TPS_FIELD_%s, &%s, %s, %s, %s },' % (
            field.name, field.id, self.presence(field, is_argument), kind, of, offset,
            "G_STRUCT_OFFSET (%s, %s)" % (struct, has) if has else "0")

    def write_table(self, name, fields, struct, is_argument, is_static):
        rows = [self.row(field, struct, is_argument) for field in fields]
        self.source += ["%sconst TpsField %s[] = {" % ("static " if is_static else "", name)]
        self.source += rows + ["  { NULL },", "};", ""]

    def write_enum(self, enum):
        name = "tps_%s_enum" % snake(enum.name)
        prefix = ENUMS.get(enum.name, (None, None))[1]
        self.header += ["extern const TpsEnum %s;" % name, ""]
        self.source += ["static const TpsEnumValue %s_values[] = {" % snake(enum.name)]
        self.source += ['  { "%s", %d },' % each for each in enum.values]
        self.source += ["  { NULL },", "};", "const TpsEnum %s = { \"%s\", %s_values };"
                        % (name, enum.name, snake(enum.name))]
        self.source += ["G_STATIC_ASSERT (%s%s == %d);" % (prefix, *each)
                        for each in enum.values if prefix] + [""]

    def write_struct(self, struct):
        lower, name = snake(struct.name), c_name(struct.name)
        if is_generated(struct.name):
            self.write_struct_type(name, struct.doc, struct.fields)
        if struct.name not in PUBLIC:
            self.header += ["extern const TpsStruct tps_%s_struct;" % lower, ""]
        self.write_table("tps_%s_fields" % lower, struct.fields, name, False,
                         struct.name not in READS)
        hooks = ", .read = tps_read_" + lower if struct.name in READS else ""
        hooks += ", .write = tps_write_" + lower if struct.name in WRITES else ""
        if struct.name in OPTIONAL:
            self.source += [
                "static gboolean", "is_%s_set (gconstpointer value)" % lower, "{",
                "  return ((const %s *) value)->%s != NULL;" % (name, OPTIONAL[struct.name]),
                "}", ""]
            hooks += ", .is_set = is_%s_set" % lower
        self.source += ['const TpsStruct tps_%s_struct = { "%s", tps_%s_fields%s };'
                        % (lower, struct.name, lower, hooks), ""]

    # -- methods --

    @staticmethod
    def arguments_struct(method):
        """The C struct of the arguments; None: there are none, or one, which is passed itself."""
        is_list = len(method.arguments) == 1 and method.arguments[0].type.id == "list"
        if len(method.arguments) < 2 and not is_list:
            return None
        return ARGUMENTS.get(method.name, "Tps%sArguments" % camel(method.name))

    def write_arguments_types(self):
        """The structs of the arguments, each with the fields of all methods that share it."""
        structs = {}
        for method in self.file.methods:
            struct = self.arguments_struct(method)
            if struct and method.name not in BAGS:
                fields = structs.setdefault(struct, {})
                for field in method.arguments:
                    fields.setdefault(self.member(field), field)
        for struct, fields in structs.items():
            self.write_struct_type(struct, "", fields.values())

    def signature(self, method):
        """A comment, "arguments -> result", with the C types."""
        arguments = self.arguments_struct(method) or \
            "".join(c_type(each.type) for each in method.arguments)
        result = "" if method.result is None else "-> " + result_type(method.result)
        text = " ".join(each for each in (arguments, result) if each)
        return " /* %s */" % text if text else ""

    def write_clear(self, function, kind, statement):
        """A GDestroyNotify for a value of the C type `kind`; returns its name."""
        if not statement:
            return "NULL"
        self.source += ["static void", "%s (gpointer data)" % function, "{",
                        "  %s = data;" % join(kind + " *", "value"), "",
                        "  " + statement, "}", ""]
        return function

    def clear_result(self, type_):
        """The statement that frees a result at the pointer `value`."""
        kind = result_type(type_)
        free = {"GPtrArray *": "g_ptr_array_unref", "gchar **": "g_strfreev",
                "TpsModelVersion *": "tps_model_version_unref"}.get(kind)
        if free:
            return "g_clear_pointer (value, %s);" % free
        return snake(kind) + "_clear (value);" if type_.id == "list" else self.clear_pointed(type_)

    def clear_pointed(self, type_):
        """The statement that frees the value at the pointer `value`."""
        text = self.clear_value(type_, "(*value)")
        return text.replace("&(*value)", "value") if text else None

    def write_sizes(self, method):
        """Functions that free arguments and result; returns the rest of the TpsRpc."""
        name, text = method.rpc, ""
        struct = self.arguments_struct(method)
        fields = [] if method.name in BAGS else method.arguments
        if struct or fields:
            kind = struct or c_type(fields[0].type)
            is_cleared = method.name in BAGS or struct and self.clears(fields)
            clear = snake(struct) + "_clear (value);" if is_cleared else \
                None if struct or kind == FORMS["TrainSpec"] else self.clear_pointed(fields[0].type)
            text += ", .n_argument_bytes = sizeof (%s), .clear_arguments = %s" % (
                kind, self.write_clear("clear_%s_arguments" % name, kind, clear))
        if method.result is not None:
            kind, clear = result_type(method.result), self.clear_result(method.result)
            text += ", .n_result_bytes = sizeof (%s), .clear_result = %s" % (
                kind, self.write_clear("clear_%s_result" % name, kind, clear))
        return text

    def write_method(self, method):
        name = method.rpc
        arguments = result = "NULL"
        sizes = self.write_sizes(method)
        if method.arguments:
            arguments = name + "_arguments"
            self.write_table(arguments, method.arguments, self.arguments_struct(method), True, True)
        if method.result is not None:
            result, type_ = "&%s_result" % name, method.result
            kind, of = ("tps_kind_list", self.list_of(type_, None, method.name)) \
                if type_.id == "list" else self.kind_of(type_, None, method.name)
            self.source.append('static const TpsField %s_result = { "%s", .kind = &%s, .of = %s };'
                               % (name, method.annotations["result"], kind, of))
        self.source += ['const TpsRpc tps_%s_rpc = { "%s", "%s", %s, %s%s };'
                        % (name, method.service, method.name, arguments, result, sizes), ""]
        self.header += comment(method.doc) + [
            "extern const TpsRpc tps_%s_rpc;%s" % (name, self.signature(method)), ""]

    # -- files --

    def write(self, folder):
        for enum in self.file.enums:
            self.write_enum(enum)
        for struct in self.file.structs:
            self.write_struct(struct)
        self.write_arguments_types()
        for method in self.file.methods:
            self.write_method(method)
        stem = "wire_" + self.file.name
        save(folder, stem + ".h", INCLUDES[self.file.name], self.header)
        forms = "train_forms.h" if self.file.name == "trainer" else "wire_forms.h"
        includes = ["plugin/wire/%s.h" % stem, "plugin/wire/" + forms]
        includes += ["plugin/wire/wire_%s.h" % each for each in self.file.includes]
        save(folder, stem + ".c", includes, self.constants + [""] + self.source)


def comment(doc):
    """The lines of a comment; none if there is no text."""
    lines = doc.strip("\n").replace("*/", "* /").split("\n") if doc.strip() else []
    if len(lines) <= 1:
        return ["/* %s */" % line for line in lines]
    return ["/* " + lines[0]] + [(" * " + line).rstrip() for line in lines[1:]] + [" */"]


def save(folder, name, includes, lines):
    is_header = name.endswith(".h")
    text = ["/* Generated by plugin/wire/wire.py from thrift/. */", ""]
    text += ["#pragma once", "", "#include <thriftps/wire.h>", ""] if is_header else []
    text += ['#include "%s"' % each for each in dict.fromkeys(includes)] + [""]
    text += ["G_BEGIN_DECLS", "", *lines, "G_END_DECLS"] if is_header else lines
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write("\n".join(text).rstrip("\n") + "\n")


def main():
    folder, contract = sys.argv[1], Contract(sys.argv[2:])
    for file in contract.files:
        Writer(contract, file).write(folder)
    includes = ["plugin/wire/contract.h"] + ["plugin/wire/wire_%s.h" % file.name
                                             for file in contract.files]
    save(folder, "contract.c", includes,
         ["const TpsRpc *const tps_contract[] = {"]
         + ["  &tps_%s_rpc," % method.rpc for method in contract.methods] + ["  NULL,", "};"])


if __name__ == "__main__":
    main()
