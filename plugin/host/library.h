/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Repairs of Thrift C GLib and of generated code. A process applies them once, at its start, to its
 * own classes, with any version of the library and the generator. A repair has no effect if the
 * defect is absent.
 *
 * Finalizers of generated structs and of the library's transports and sockets do not call GObject's
 * finalizer, so each object leaks 136 bytes (library and generators 0.17 to 0.24 and later). The
 * repair wraps them, and calls GObject's finalizer after them.
 *
 * xxx_get_type() of generated structs is not thread-safe. A type that two threads register at once
 * stays broken for the life of the process (generators 0.17 to 0.24 and later).
 * tps_register_types() must therefore be called before the first connection.
 *
 * Error paths of generated readers leak keys of maps, and containers in containers, up to the size
 * of the message (generators 0.17 to 0.24 and later). With TpsHostProtocol, reading a malformed
 * struct returns the fields read so far, and the end of the message fails instead.
 *
 * A service that extends no other service rejects every method, because the slot dispatch_call of
 * its class is empty (generators 0.23 and 0.24). The repair sets the slot to the generated
 * function.
 *
 * A call of an unknown method recurses without end if the service extends another service, or if
 * the processor is a subclass of a generated one (generators up to 0.23). The repair adds a guard
 * to the slots, which detects the recursion and replies UNKNOWN_METHOD.
 *
 * All functions change classes, so they should be called before other threads use the types.
 */

#pragma once

#include <thriftps/plugin.h>

G_BEGIN_DECLS

/* Repairs the library's transports and all generated structs that are registered now. The
 * constructors of plugin/host call this function; repeated calls repair types that were registered
 * since. Thread: any. */
void tps_repair_library (void);

/* Makes the remaining values of the current message of `protocol` empty, and its end fail with
 * `reason`, of which it takes ownership. */
typedef void (*TpsFailProtocol) (ThriftProtocol *protocol, GError *reason);

/* Passes the failures of generated readers to `fail` if they read from a protocol of this type. The
 * readers then return the fields that they have read. Thread: any, before the first read. */
void tps_repair_readers_of (GType type, TpsFailProtocol fail);

/* Repairs the class of `processor` and its ancestors. Has no effect on classes that are not derived
 * from ThriftDispatchProcessor. Thread: one, before the server starts. */
void tps_repair_processor_class (ThriftProcessor *processor);

G_END_DECLS
