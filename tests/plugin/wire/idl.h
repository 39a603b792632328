/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Parses the .thrift files of thrift/. It knows only the part of the language that these files
 * use. */

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
  std::string type;         /* e.g. "i32", "Tensor", "list<BagQuery>"; without the file's name */
  std::string name;
};

struct IdlMethod
{
  std::string result; /* "void" is possible */
  std::vector<IdlField> arguments;
  std::vector<IdlField> exceptions;
};

struct Idl
{
  std::map<std::string, std::vector<std::pair<std::string, int>>> enums;
  std::map<std::string, std::vector<IdlField>> structs; /* including exceptions */
  std::map<std::string, IdlMethod> methods;             /* by name, such as "Node:describe" */

  /* Adds the contents of a file. Throws std::runtime_error if the text is not valid IDL. */
  void parse (const std::string &text);
};

} // namespace thriftps
