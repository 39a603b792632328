/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A subclass as a program may write it: a Rendezvous that counts the calls of put, which it passes
 * on, and refuses remove. */

#pragma once

#include "plugin/glib/handler.h"

G_BEGIN_DECLS

GType guarded_store_get_type (void);

/* Calls of put by all objects. */
guint guarded_store_count_puts (void);

G_END_DECLS
