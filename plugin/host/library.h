/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Repairs of Thrift C GLib and of generated code that a process can make to its own classes at
 * start, once, whatever version they came from. Each is a no-op where the defect is not there.
 *
 * Finalizers of generated structs and of the library's transports and sockets do not run
 * GObject's, so that 136 bytes are lost with each object (library and generators 0.17 to 0.24 and
 * later): they are wrapped, and GObject's runs after them.
 *
 * xxx_get_type() of generated structs is not thread-safe; a type that two threads register at once
 * stays broken for the whole process (generators 0.17 to 0.24 and later): tps_register_types()
 * before the first connection.
 *
 * Error paths of generated readers leak what they are in: keys of maps, containers in containers,
 * up to the size of the message (generators 0.17 to 0.24 and later): with TpsHostProtocol a struct
 * that cannot be read reads as what it has, and the message's end fails instead.
 *
 * A service that extends nothing rejects every method, because the class's slot dispatch_call is
 * left empty (generators 0.23 and 0.24): it gets the generated function.
 *
 * An unknown method of a service that extends another, or of any subclass of a generated processor,
 * recurses without end (generators up to 0.23): a guard in the slots sees the second round, and
 * UNKNOWN_METHOD is answered.
 *
 * All of these change classes: call them before other threads use the types.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

G_BEGIN_DECLS

/* A generated `<namespace>_<struct>_get_type`. */
typedef GType (*TpsGetType) (void);

/* Repairs what needs no knowledge of the host's types: the library's transports, and every
 * generated struct that is registered by now. Called by everything in plugin/host that makes an
 * object; repeated calls find what is new. Thread: any. */
void tps_repair_library (void);

/* Registers the types, initialises their classes and repairs them. The list should hold the
 * get_type functions of all structs, exceptions, `<service>_<method>_args` and `_result` of the
 * host's services: those that are left out are registered by the first call that needs them,
 * unsafely. Thread: one, before the server starts. */
void tps_register_types (const TpsGetType *get_types, guint n_get_types);

/* Repairs the class of `processor` and its ancestors; a no-op for classes that are not
 * ThriftDispatchProcessors. Thread: one, before the server starts. */
void tps_repair_processor_class (ThriftProcessor *processor);

G_END_DECLS
