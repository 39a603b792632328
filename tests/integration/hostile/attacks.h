/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Invalid bytes. Each attack is a function that returns the bytes to send, given the form of the
 * connection and the victim. */

#pragma once

#include <string>
#include <vector>

#include "tests/integration/host/wire_value.h"

namespace hostile {

/* The framing and the protocol of a connection. */
struct Form
{
  wire::Protocol protocol;
  bool framed;
  bool multiplexed;
};

/* The target of an attack: a method, its arguments, and names that the server knows. */
struct Victim
{
  const char *service;   /* "Journal" */
  const char *method;    /* "echo", also without the service */
  wire::Value arguments; /* well-formed */
  const char *probe;     /* a method that succeeds after any other calls */
  wire::Value probe_arguments;
  int16_t struct_field; /* of the arguments, a struct */
  int16_t binary_field; /* of the struct, a binary; 0 = none that is known */
  int16_t list_field;   /* of the struct, a list of doubles; 0 = none that is known */
};

enum class Outcome
{
  Refused,  /* closed, or an error; nothing else */
  Answered, /* a reply, and the connection stays open */
  Either,   /* any well-formed result */
  Stalls,   /* the server waits for more bytes, and closes when its timeout expires */
};

/* The requirements of an attack. */
constexpr unsigned FRAMES = 1;
constexpr unsigned BINARY = 2;
constexpr unsigned COMPACT = 4;
constexpr unsigned MEMBERS = 8; /* binary_field and list_field */
/* the library's own transport cannot be protected from outside */
constexpr unsigned OUR_TRANSPORT = 16;

struct Attack
{
  const char *name;
  Outcome outcome;
  std::string (*bytes) (const Form &form, const Victim &victim);
  unsigned needs = 0; /* a combination of the flags above */
};

const std::vector<Attack> &attacks ();

/* The name of the victim's method, or another of its service, in this form. */
std::string name_of (const Form &form, const Victim &victim);
std::string name_of (const Form &form, const Victim &victim, const std::string &method);

/* A message of those arguments, in a frame if the form has frames. */
std::string whole (const Form &form, const std::string &message);
std::string call (const Form &form, const Victim &victim, const wire::Value &arguments);

} // namespace hostile
