/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the descriptors with thrift/. Every struct, field, enum and method of the IDL must be
 * described, and nothing else. */

#include "plugin/wire/contract.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "plugin/wire/value_kinds.h"
#include "plugin/wire/wire_failure.h"
#include "tests/plugin/wire/idl.h"

namespace thriftps {
namespace {

const char *const FILES[] = { "chunks", "durability",       "embedding_table", "memory",
                              "node",   "parameter_server", "rendezvous",      "session",
                              "tensor", "trainer" };

Idl
read_idl ()
{
  Idl idl;

  for (const char *name : FILES)
    {
      std::ifstream file (std::string ("thrift/") + name + ".thrift");
      std::stringstream text;

      EXPECT_TRUE (file.good ()) << name;
      text << file.rdbuf ();
      idl.parse (text.str ());
    }
  return idl;
}

/* Collects the mismatches of descriptors, one line each. */
class Comparison
{
public:
  explicit Comparison (const Idl &idl) : idl_ (idl)
  {
  }

  void
  compare (const TpsRpc *const *rpcs)
  {
    for (; *rpcs != nullptr; rpcs++)
      compare_method (**rpcs);
    for (const auto &method : idl_.methods)
      if (methods_.count (method.first) == 0)
        complain (method.first, "has no descriptor");
    for (const auto &type : idl_.structs)
      if (structs_.count (type.first) == 0)
        complain (type.first, "has no descriptor");
    for (const auto &type : idl_.enums)
      if (enums_.count (type.first) == 0)
        complain (type.first, "has no descriptor");
  }

  std::vector<std::string> complaints;

private:
  void
  complain (const std::string &where, const std::string &what)
  {
    complaints.push_back (where + " " + what);
  }

  static std::string
  type_of (const TpsField &field)
  {
    if (field.kind->idl_type != nullptr)
      return field.kind->idl_type;
    if (field.kind == &tps_kind_list)
      return "list<" + type_of (static_cast<const TpsList *> (field.of)->elem) + ">";
    if (field.kind == &tps_kind_struct)
      return static_cast<const TpsStruct *> (field.of)->name;
    return static_cast<const TpsEnum *> (field.of)->name;
  }

  void
  compare_enum (const TpsEnum &type)
  {
    std::vector<std::pair<std::string, int>> values;

    enums_.insert (type.name);
    for (const TpsEnumValue *value = type.values; value->name != nullptr; value++)
      values.emplace_back (value->name, value->value);
    if (idl_.enums.count (type.name) == 0 || idl_.enums.at (type.name) != values)
      complain (type.name, "has other values");
  }

  /* Compares the type of a field's value. */
  void
  compare_value (const TpsField &field)
  {
    if (field.kind == &tps_kind_enum || field.kind == &tps_kind_open_enum)
      compare_enum (*static_cast<const TpsEnum *> (field.of));
    else if (field.kind == &tps_kind_list)
      compare_value (static_cast<const TpsList *> (field.of)->elem);
    else if (field.kind == &tps_kind_struct || (field.kind->type == TPS_WIRE_LIST && field.of))
      compare_struct (*static_cast<const TpsStruct *> (field.of));
  }

  void
  compare_field (const std::string &where, const IdlField &wanted, const TpsField &field)
  {
    if (wanted.id != field.id || wanted.name != field.name)
      complain (where,
                "is " + std::string (field.name) + " with number " + std::to_string (field.id));
    if (wanted.type != type_of (field))
      complain (where, "is of type " + type_of (field));
    if (wanted.requiredness == "required" && field.presence != TPS_FIELD_REQUIRED)
      complain (where, "may be missing");
    if (wanted.requiredness == "optional" && field.presence == TPS_FIELD_REQUIRED)
      complain (where, "must be there");
    compare_value (field);
  }

  void
  compare_fields (const std::string &where, const std::vector<IdlField> &wanted,
                  const TpsField *fields)
  {
    size_t n = 0;

    for (; fields != nullptr && fields[n].name != nullptr; n++)
      if (n < wanted.size ())
        compare_field (where + "." + wanted[n].name, wanted[n], fields[n]);
    if (n != wanted.size ())
      complain (where,
                "has " + std::to_string (n) + " fields, not " + std::to_string (wanted.size ()));
  }

  void
  compare_struct (const TpsStruct &type)
  {
    structs_.insert (type.name);
    if (idl_.structs.count (type.name) == 0)
      complain (type.name, "is not in thrift/");
    else if (compared_.insert (type.fields).second)
      compare_fields (type.name, idl_.structs.at (type.name), type.fields);
  }

  void
  compare_method (const TpsRpc &rpc)
  {
    const std::string name = std::string (rpc.service) + ":" + rpc.name;
    const auto method = idl_.methods.find (name);
    const std::string result = rpc.result != nullptr ? type_of (*rpc.result) : "void";

    if (!methods_.insert (name).second)
      complain (name, "is described twice");
    if (method == idl_.methods.end ())
      {
        complain (name, "is not in thrift/");
        return;
      }
    compare_fields (name, method->second.arguments, rpc.arguments);
    if (method->second.result != result)
      complain (name, "answers " + result);
    if (rpc.result != nullptr)
      compare_value (*rpc.result);
    for (const IdlField &thrown : method->second.exceptions)
      compare_field (name + " throws", thrown, tps_failure_field);
    if (method->second.exceptions.size () != 1)
      complain (name, "does not throw one exception");
  }

  const Idl &idl_;
  std::set<std::string> methods_, structs_, enums_;
  std::set<const TpsField *> compared_;
};

std::vector<std::string>
compare (const Idl &idl)
{
  Comparison comparison (idl);

  comparison.compare (tps_contract);
  return comparison.complaints;
}

using Complaints = std::vector<std::string>;

TEST (Contract, descriptorsAreThoseOfTheIdl)
{
  Idl idl = read_idl ();

  EXPECT_GE (idl.methods.size (), 30u);
  EXPECT_EQ (compare (idl), Complaints ());
}

TEST (Contract, additionsToTheIdlNeedADescriptor)
{
  Idl idl = read_idl ();

  idl.parse ("service Node { void restart(1: string why) throws (1: ServiceError failure) }"
             "struct Extra { 1: required i32 value }"
             "enum Mode { FAST = 1 }");
  EXPECT_EQ (compare (idl), Complaints ({ "Node:restart has no descriptor",
                                          "Extra has no descriptor", "Mode has no descriptor" }));
}

TEST (Contract, differencesFromTheIdlAreNamed)
{
  Idl idl = read_idl ();

  idl.structs["PushId"][1].id = 3;
  idl.structs["SharedSlice"][0].type = "i32";
  idl.structs["Chunk"][1].requiredness = "optional";
  idl.structs["Optimizer"][2].requiredness = "required";
  idl.structs["Model"].push_back ({ 3, "optional", "string", "name" });
  idl.enums["Pooling"][2].second = 4;
  idl.methods["Rendezvous:add"].result = "i32";
  const Complaints complaints = compare (idl);
  const std::set<std::string> got (complaints.begin (), complaints.end ());
  EXPECT_EQ (got, (std::set<std::string> {
                      "PushId.sequence is sequence with number 2",
                      "SharedSlice.segment is of type i64",
                      "Chunk.index must be there",
                      "Optimizer.momentum may be missing",
                      "Model has 2 fields, not 3",
                      "Pooling has other values",
                      "Rendezvous:add answers i64",
                  }));
}

} // namespace
} // namespace thriftps
