/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Repairs of Thrift C GLib and of generated code. A process applies them to its own classes at its
 * start, once, for any version of them. Each is a no-op if the defect is absent.
 *
 * Finalizers of generated structs and of the library's transports and sockets do not call
 * GObject's, so that 136 bytes are lost with each object (library and generators 0.17 to 0.24 and
 * later). They are wrapped, and GObject's runs after them.
 *
 * xxx_get_type() of generated structs is not thread-safe. A type that two threads register at once
 * stays broken for the whole process (generators 0.17 to 0.24 and later): call tps_register_types()
 * before the first connection.
 *
 * Error paths of generated readers leak keys of maps, and containers in containers, up to the size
 * of the message (generators 0.17 to 0.24 and later). With TpsHostProtocol a struct that cannot be
 * read returns the fields read so far, and the message's end fails instead.
 *
 * A service that extends nothing rejects every method, because the class's slot dispatch_call is
 * left empty (generators 0.23 and 0.24): it gets the generated function.
 *
 * An unknown method of a service that extends another, or of any subclass of a generated processor,
 * recurses without end (generators up to 0.23): a guard in the slots detects the second round, and
 * UNKNOWN_METHOD is answered.
 *
 * All functions here change classes: call them before other threads use the types.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

G_BEGIN_DECLS

/* A generated `<namespace>_<struct>_get_type`. */
typedef GType (*TpsGetType) (void);

/* Repairs the classes that need no help of the host: the library's transports, and all generated
 * structs that are registered now. Every object of plugin/host calls it; repeated calls repair new
 * types. Thread: any. */
void tps_repair_library (void);

/* Registers the types, initialises their classes and repairs them. The list should contain the
 * get_type functions of all structs, exceptions, `<service>_<method>_args` and `_result` of the
 * host's services. Others are registered by the first call that needs them, which is unsafe.
 * Thread: one, before the server starts. */
void tps_register_types (const TpsGetType *get_types, guint n_get_types);

/* Repairs the class of `processor` and its ancestors; a no-op for classes that are not
 * ThriftDispatchProcessors. Thread: one, before the server starts. */
void tps_repair_processor_class (ThriftProcessor *processor);

G_END_DECLS
