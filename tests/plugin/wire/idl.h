/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The .thrift files of thrift/, parsed: only the part of the language that they use. */

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace thriftps {

struct IdlField
{
  int id;
  std::string requiredness; /* "required", "optional", "" */
  std::string type;         /* "i32", "Tensor", "list<BagQuery>"; without the file's name */
  std::string name;
};

struct IdlMethod
{
  std::string result; /* "void" too */
  std::vector<IdlField> arguments;
  std::vector<IdlField> exceptions;
};

struct Idl
{
  std::map<std::string, std::vector<std::pair<std::string, int>>> enums;
  std::map<std::string, std::vector<IdlField>> structs; /* exceptions too */
  std::map<std::string, IdlMethod> methods;             /* "Node:describe" */

  /* Adds the contents of a file. Throws std::runtime_error if the text is not valid IDL. */
  void parse (const std::string &text);
};

} // namespace thriftps
