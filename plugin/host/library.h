/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Repairs of Thrift C GLib and of generated code that a process can make to its own classes at start, once, whatever
 * version they came from. Each is a no-op where the defect is not there.
 *
 *  what                                                           where                  repair
 *  finalizers of generated structs and of the socket, framed and  library and generators finalizers are wrapped: GObject's runs
 *  buffered transports do not run GObject's: 136 bytes are lost   0.17 to 0.24 and later after them
 *  with each object
 *  xxx_get_type() of generated structs is not thread-safe: a type generators 0.17 to 0.24 tps_register_types() before the first
 *  registered by two threads at once stays broken for the whole   and later              connection
 *  process
 *  error paths of generated readers leak the element being read   generators 0.17 to 0.24 with TpsHostProtocol the read ends
 *                                                                 and later              well, the message's end fails
 *  a service that extends nothing rejects every method: the class generators 0.23, 0.24  the empty slot gets the generated
 *  slot dispatch_call is not filled                                                      function
 *  an unknown method of a service that extends another (or of any generators up to 0.23  a guard in the slots sees the second
 *  subclass) recurses without end                                                        round and answers UNKNOWN_METHOD
 *
 * All of these change classes: call them before other threads use the types.
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

G_BEGIN_DECLS

/* A generated `<namespace>_<struct>_get_type`. */
typedef GType (*TpsGetType) (void);

/* Repairs what needs no knowledge of the host's types: the library's transports, and every generated struct that is
 * registered by now. Called by everything in plugin/host that makes an object; repeated calls find what is new.
 * Thread: any. */
void tps_repair_library (void);

/* Registers the types, initialises their classes and repairs them. The list should hold the get_type functions of all
 * structs, exceptions, `<service>_<method>_args` and `_result` of the host's services: those that are left out are
 * registered by the first call that needs them, unsafely. Thread: one, before the server starts. */
void tps_register_types (const TpsGetType *get_types, guint n_get_types);

/* Repairs the class of `processor` and its ancestors; a no-op for classes that are not ThriftDispatchProcessors.
 * Thread: one, before the server starts. */
void tps_repair_processor_class (ThriftProcessor *processor);

G_END_DECLS
