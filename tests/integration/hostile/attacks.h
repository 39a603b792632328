/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Attacks with invalid bytes. Each attack is a function that returns the bytes to send, for a form
 * of connection and a victim. */

#pragma once

#include <string>
#include <vector>

#include "tests/integration/host/wire_value.h"

namespace hostile {

/* The framing and the protocol of a connection, and whether it is multiplexed. */
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
  const char *probe;     /* a method that must succeed after any other calls */
  wire::Value probe_arguments;
  int16_t struct_field; /* field id of a struct in the arguments */
  int16_t binary_field; /* field id of a binary in that struct; 0 = none */
  int16_t list_field;   /* field id of a list of doubles in that struct; 0 = none */
};

enum class Outcome
{
  Refused,  /* the connection is closed, or there is an error */
  Answered, /* a reply, and the connection stays open */
  Either,   /* any well-formed result */
  Stalls,   /* the server waits for more bytes, and closes when its timeout expires */
};

/* Flags for the requirements of an attack. */
constexpr unsigned FRAMES = 1;
constexpr unsigned BINARY = 2;
constexpr unsigned COMPACT = 4;
constexpr unsigned MEMBERS = 8; /* the victim has binary_field and list_field */
/* OUR_TRANSPORT excludes the library's own transport, which cannot be protected from outside. */
constexpr unsigned OUR_TRANSPORT = 16;

struct Attack
{
  const char *name;
  Outcome outcome;
  std::string (*bytes) (const Form &form, const Victim &victim);
  unsigned needs = 0; /* a combination of the flags above */
};

const std::vector<Attack> &attacks ();

/* Returns the name of the victim's method, or of another method of its service, in this form. */
std::string name_of (const Form &form, const Victim &victim);
std::string name_of (const Form &form, const Victim &victim, const std::string &method);

/* whole() puts a message into a frame if the form has frames. call() does so with a call that has
 * these arguments. */
std::string whole (const Form &form, const std::string &message);
std::string call (const Form &form, const Victim &victim, const wire::Value &arguments);

} // namespace hostile
