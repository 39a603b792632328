"""The contract, read from the JSON form of the IDL (`thrift --gen json`), for the programs that
generate code. See "Annotations" in README.md.

The compiler loses the names of enum types, so each field of an enum type names it in an annotation.
//tests/thrift:contract_test checks that no field lacks it.
"""

import json
import os
import re

# The names of methods in C, tps_<name>_rpc, if they are not those of the IDL.
RPCS = {
    "Rendezvous.add": "rendezvous_add",
    "Rendezvous.get": "rendezvous_get",
    "Rendezvous.put": "rendezvous_put",
    "Rendezvous.remove": "rendezvous_remove",
    "Trainer.cancel": "cancel_train",
    "Trainer.status": "train_status",
}

RIGHTS = ("read", "push", "admin", "any", "open")
LANES = ("inline", "worker", "long")
KNOWN = {
    "enum": {"open"},
    "field": {"enum_type", "finite", "max_bytes", "max_entries", "min", "presence", "size", "text"},
    "method": {"command", "lane", "login", "result", "retry", "right"},
}


def snake(name):
    """TableSpec -> table_spec, as in the names of C GLib."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def camel(name):
    """table_spec -> TableSpec."""
    return "".join(word.capitalize() for word in name.split("_"))


def check(where, kind, annotations):
    unknown = sorted(set(annotations) - KNOWN[kind])
    if unknown:
        raise ValueError("%s: unknown annotation %s" % (where, unknown[0]))
    return annotations


class Type:
    """`id` is a type of Thrift ("i32", "list", ...), or "enum". `name` is that of a struct or an
    enum, `elem` the type of a list's elements."""

    def __init__(self, kind, described, enum_type):
        self.id = "struct" if kind in ("exception", "union") else kind
        self.name = described.get("class", "").rpartition(".")[2]
        self.elem = None
        if kind in ("list", "set"):
            self.elem = Type(described["elemTypeId"], described.get("elemType", {}), enum_type)
        elif kind == "map" and {described["keyTypeId"], described["valueTypeId"]} != {"string"}:
            raise ValueError("maps other than map<string,string> have no code")
        elif enum_type:
            self.id, self.name = "enum", enum_type


class Field:
    def __init__(self, owner, data):
        self.name, self.id, self.doc = data["name"], data["key"], data.get("doc", "")
        self.key = "%s.%s" % (owner, self.name)
        self.required = data["required"]  # "required", "optional"; "req_out": neither
        self.annotations = check(self.key, "field", data.get("annotations", {}))
        self.type = Type(data["typeId"], data.get("type", {}), self.annotations.get("enum_type"))

    def has(self, annotation, value="true"):
        return self.annotations.get(annotation) == value


class Struct:
    def __init__(self, data):
        self.name, self.doc = data["name"], data.get("doc", "")
        self.fields = [Field(self.name, each) for each in data["fields"]]


class Enum:
    def __init__(self, data):
        self.name = data["name"]
        self.values = [(each["name"], each["value"]) for each in data["members"]]
        annotations = check(self.name, "enum", data.get("annotations", {}))
        self.is_open = annotations.get("open") == "true"


class Method:
    def __init__(self, service, data):
        self.service, self.name, self.doc = service, data["name"], data.get("doc", "")
        self.key = "%s.%s" % (service, self.name)
        self.rpc = RPCS.get(self.key, self.name)
        self.arguments = [Field(self.name, each) for each in data["arguments"]]
        self.result = None
        if data["returnTypeId"] != "void":
            self.result = Type(data["returnTypeId"], data.get("returnType", {}), None)
        self.annotations = check(self.key, "method", data.get("annotations", {}))
        self.right = self.annotations.get("right")
        self.lane = self.annotations.get("lane", "inline")
        thrown = [(each["key"], each["name"]) for each in data["exceptions"]]
        if self.right not in RIGHTS:
            raise ValueError("%s needs the annotation right: one of %s" % (self.key, RIGHTS))
        if self.lane not in LANES:
            raise ValueError("%s: its lane must be one of %s" % (self.key, LANES))
        if thrown != [(1, "failure")]:
            raise ValueError("%s needs `throws (1: ServiceError failure)`" % self.key)
        if self.result is not None and "result" not in self.annotations:
            raise ValueError("%s needs the annotation result: the name of what it returns"
                             % self.key)
        if self.result is None and "result" in self.annotations:
            raise ValueError("%s is void, and must not have the annotation result" % self.key)


class File:
    """One file of the IDL."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as text:
            data = json.load(text)
        self.name, self.includes = data["name"], data["includes"]
        self.enums = [Enum(each) for each in data["enums"]]
        self.structs = [Struct(each) for each in data["structs"]]
        self.services = {each["name"]: [Method(each["name"], one) for one in each["functions"]]
                         for each in data["services"]}
        self.methods = [each for methods in self.services.values() for each in methods]


class Contract:
    """All files, in the order of their names."""

    def __init__(self, paths):
        self.files = [File(path) for path in sorted(paths, key=os.path.basename)]
        self.enums = {each.name: each for file in self.files for each in file.enums}
        self.structs = {each.name: each for file in self.files for each in file.structs}
        self.methods = [each for file in self.files for each in file.methods]
        rpcs = {}
        for method in self.methods:
            other = rpcs.setdefault(method.rpc, method)
            if other is not method:
                raise ValueError("%s and %s have one name in C, tps_%s_rpc: rename the new one, or"
                                 " only its functions in C, in RPCS of thrift/contract.py"
                                 % (other.key, method.key, method.rpc))
            for field in method.arguments:
                self.check_field(field)
        for struct in self.structs.values():
            for field in struct.fields:
                self.check_field(field)

    def check_field(self, field):
        enum_type = field.annotations.get("enum_type")
        if enum_type and enum_type not in self.enums:
            raise ValueError("%s: there is no enum %s" % (field.key, enum_type))
        if field.type.id == "struct" and field.type.name not in self.structs:
            raise ValueError("%s: there is no struct %s" % (field.key, field.type.name))
