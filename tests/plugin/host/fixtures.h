/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* GObject classes for tests of plugin/host, in C because that is easier. */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>
#include <thrift/c_glib/transport/thrift_socket.h>

G_BEGIN_DECLS

/* A socket whose read blocks until it has all requested bytes, and whose bytes are inverted on the
 * descriptor, as if they were encrypted. Takes over `fd`. */
ThriftTransport *secret_socket_new (gint fd);

/* Inverts bytes in place. */
void secret_socket_invert (guint8 *bytes, gsize n_bytes);

/* A subclass of the generated Journal processor, with a handler. */
ThriftProcessor *sub_journal_processor_new (void);

/* Clears the library's slot in the class of the generated Health processor, as generators 0.23 and
 * 0.24 leave it. Call it once, before any repair. */
void break_health_processor_class (void);

/* A processor of Health alone, whose handler implements ping. */
ThriftProcessor *health_processor_new (void);

G_END_DECLS
