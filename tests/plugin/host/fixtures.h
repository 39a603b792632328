/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* GObject classes that tests of plugin/host need, which are easier to write in C. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>
#include <thrift/c_glib/transport/thrift_socket.h>

G_BEGIN_DECLS

/* A socket whose read waits until it has all that was asked for, and whose bytes are not those of
 * the descriptor: each is inverted, as if it were encrypted. Takes over `fd`. */
ThriftTransport *secret_socket_new (gint fd);

/* Inverts bytes in place. */
void secret_socket_invert (guint8 *bytes, gsize n_bytes);

/* A subclass of the generated Journal processor, with a handler. */
ThriftProcessor *sub_journal_processor_new (void);

/* Empties the library's slot of the generated Health processor's class, as generators 0.23 and 0.24
 * leave it. Once, before any repair. */
void break_health_processor_class (void);

/* A processor of Health alone, whose handler answers ping. */
ThriftProcessor *health_processor_new (void);

G_END_DECLS
