/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bytes that should not be. Each attack is a function from how the connection speaks and whom it
 * attacks to what it sends.
 */

#pragma once

#include <string>
#include <vector>

#include "tests/integration/host/wire_value.h"

namespace hostile {

/* How a connection speaks. */
struct Form
{
  wire::Protocol protocol;
  bool framed;
  bool multiplexed;
};

/* Whom an attack is for: a method, its arguments, and names that the server knows. */
struct Victim
{
  const char *service;   /* "Journal" */
  const char *method;    /* "echo", also without the service */
  wire::Value arguments; /* well-formed */
  const char *probe;     /* a method that succeeds whatever calls came before */
  wire::Value probe_arguments;
  int16_t struct_field; /* of the arguments, a struct */
  int16_t binary_field; /* of the struct, a binary; 0 = none that is known */
  int16_t list_field;   /* of the struct, a list of doubles; 0 = none that is known */
};

enum class Outcome
{
  Refused,  /* closed, or an error; nothing else */
  Answered, /* an answer, and the connection goes on */
  Either,   /* as it likes, but well-formed */
  Stalls,   /* more is expected that does not come: closed when patience ends */
};

/* What an attack makes sense against. */
constexpr unsigned FRAMES = 1;
constexpr unsigned BINARY = 2;
constexpr unsigned COMPACT = 4;
constexpr unsigned MEMBERS = 8;        /* binary_field and list_field */
constexpr unsigned OUR_TRANSPORT = 16; /* the library's own is beyond help from outside */

struct Attack
{
  const char *name;
  Outcome outcome;
  std::string (*bytes) (const Form &form, const Victim &victim);
  unsigned needs = 0; /* of those, or'ed */
};

const std::vector<Attack> &attacks ();

/* The name of the victim's method, or another of its service, in this form. */
std::string name_of (const Form &form, const Victim &victim);
std::string name_of (const Form &form, const Victim &victim, const std::string &method);

/* A message of those arguments in its frame, where there are frames. */
std::string whole (const Form &form, const std::string &message);
std::string call (const Form &form, const Victim &victim, const wire::Value &arguments);

} // namespace hostile
