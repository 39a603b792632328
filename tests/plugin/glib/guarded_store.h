/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A subclass such as a program may write: a Rendezvous that counts and forwards calls of put, and
 * refuses remove. */

#pragma once

#include "plugin/glib/handler.h"

G_BEGIN_DECLS

GType guarded_store_get_type (void);

/* Calls of put by all objects. */
guint guarded_store_count_puts (void);

G_END_DECLS
