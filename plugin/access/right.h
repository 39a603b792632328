/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rights that methods require and rules grant. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_RIGHT_UNSET = 0,     /* invalid: a dispatcher refuses a service with such a method */
  TPS_RIGHT_READ = 1 << 0, /* reads state */
  TPS_RIGHT_PUSH = 1 << 1, /* takes part in training: changes values, creates and drops nothing */
  /* creates and drops state, reads and writes files, changes the server */
  TPS_RIGHT_ADMIN = 1 << 2,
  TPS_RIGHT_ANY = 7, /* any of these three: for methods that carry or prepare calls */
  /* for methods only: any peer may call the method, even before authentication */
  TPS_RIGHT_OPEN = 1 << 3,
} TpsRight;

G_END_DECLS
