/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/plugin/wire/idl.h"

#include <regex>
#include <stdexcept>

namespace thriftps {
namespace {

class Parser
{
public:
  Parser (const std::string &text, Idl *idl) : idl_ (idl)
  {
    static const std::regex comment ("//[^\n]*|/\\*[^]*?\\*/");
    static const std::regex token ("[A-Za-z_][A-Za-z0-9_.]*|[0-9]+|\"[^\"]*\"|[^\\s]");
    const std::string code = std::regex_replace (text, comment, "");

    for (std::sregex_iterator i (code.begin (), code.end (), token), end; i != end; ++i)
      tokens_.push_back (i->str ());
  }

  void
  parse ()
  {
    while (next_ < tokens_.size ())
      parse_definition (take ());
  }

private:
  const std::string &
  peek () const
  {
    if (next_ >= tokens_.size ())
      throw std::runtime_error ("the file ends too early");
    return tokens_[next_];
  }

  std::string
  take ()
  {
    std::string token = peek ();

    next_++;
    return token;
  }

  void
  expect (const std::string &token)
  {
    if (take () != token)
      throw std::runtime_error ("expected " + token + " before " + peek ());
  }

  bool
  skip (const std::string &token)
  {
    if (peek () != token)
      return false;
    next_++;
    return true;
  }

  void
  skip_annotations ()
  {
    if (next_ < tokens_.size () && skip ("("))
      while (!skip (")"))
        next_++;
  }

  void
  parse_definition (const std::string &keyword)
  {
    if (keyword == "include")
      take ();
    else if (keyword == "namespace")
      next_ += 2;
    else if (keyword == "enum")
      parse_enum (take ());
    else if (keyword == "struct" || keyword == "exception")
      {
        std::string name = take ();

        expect ("{");
        idl_->structs[name] = parse_fields ("}");
      }
    else if (keyword == "service")
      parse_service (take ());
    else
      throw std::runtime_error ("unknown definition " + keyword);
  }

  void
  parse_enum (const std::string &name)
  {
    expect ("{");
    while (!skip ("}"))
      {
        std::string value = take ();

        expect ("=");
        idl_->enums[name].emplace_back (value, std::stoi (take ()));
        skip (",");
      }
    skip_annotations ();
  }

  std::string
  parse_type ()
  {
    std::string name = take ();

    if (name == "list" || name == "map")
      {
        expect ("<");
        name += "<" + parse_type ();
        if (skip (","))
          name += "," + parse_type ();
        expect (">");
        return name + ">";
      }
    return name.substr (name.rfind ('.') + 1);
  }

  std::vector<IdlField>
  parse_fields (const std::string &end)
  {
    std::vector<IdlField> fields;

    while (!skip (end))
      {
        IdlField field;

        field.id = std::stoi (take ());
        expect (":");
        if (peek () == "required" || peek () == "optional")
          field.requiredness = take ();
        field.type = parse_type ();
        field.name = take ();
        skip_annotations ();
        skip (",");
        fields.push_back (field);
      }
    return fields;
  }

  void
  parse_service (const std::string &service)
  {
    expect ("{");
    while (!skip ("}"))
      {
        IdlMethod method;
        std::string name;

        method.result = parse_type ();
        name = take ();
        expect ("(");
        method.arguments = parse_fields (")");
        if (skip ("throws"))
          {
            expect ("(");
            method.exceptions = parse_fields (")");
          }
        skip_annotations ();
        idl_->methods[service + ":" + name] = method;
      }
  }

  Idl *idl_;
  std::vector<std::string> tokens_;
  size_t next_ = 0;
};

} // namespace

void
Idl::parse (const std::string &text)
{
  Parser (text, this).parse ();
}

} // namespace thriftps
