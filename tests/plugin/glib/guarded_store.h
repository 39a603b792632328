/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An example of a subclass that a program may write: a Rendezvous that counts and forwards calls of
 * put, and refuses remove. */

#pragma once

#include "plugin/glib/handler.h"

G_BEGIN_DECLS

GType guarded_store_get_type (void);

/* Returns the number of calls of put by all objects. */
guint guarded_store_count_puts (void);

G_END_DECLS
