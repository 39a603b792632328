/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* GObject classes for the tests of plugin/host. They are in C because that is easier. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>
#include <thrift/c_glib/transport/thrift_socket.h>

G_BEGIN_DECLS

/* Returns a socket whose read blocks until it has all requested bytes. Its bytes are inverted on
 * the descriptor, as if they were encrypted. It takes ownership of `fd`. */
ThriftTransport *secret_socket_new (gint fd);

/* Inverts the bytes in place. */
void secret_socket_invert (guint8 *bytes, gsize n_bytes);

/* A subclass of the generated Journal processor, with a handler. */
ThriftProcessor *sub_journal_processor_new (void);

/* Resets dispatch_call in the class of the generated Health processor to the library's function, as
 * generators 0.23 and 0.24 leave it. Call it once, before any repair. */
void break_health_processor_class (void);

/* Returns a processor of Health alone, whose handler implements ping. */
ThriftProcessor *health_processor_new (void);

G_END_DECLS
