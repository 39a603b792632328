/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a method demands of its caller, and what a rule grants. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_RIGHT_UNSET = 0,      /* invalid: a dispatcher refuses a service with such a method */
  TPS_RIGHT_READ = 1 << 0,  /* reads state */
  TPS_RIGHT_PUSH = 1 << 1,  /* takes part in training: changes values, not what exists */
  TPS_RIGHT_ADMIN = 1 << 2, /* makes and drops state, reads and writes files, changes the server */
  TPS_RIGHT_ANY = 7,        /* any of the three: carries calls or is needed for them */
  TPS_RIGHT_OPEN = 1 << 3,  /* for methods only: any peer may call, also before authentication */
} TpsRight;

G_END_DECLS
