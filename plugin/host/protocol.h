/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A ThriftProtocol for hosts that protects readers, generated or not, from malformed bytes.
 *
 * It answers reads from one message that was received and checked as a whole, so its answers are
 * consistent: every length, count and type is correct, nesting is bounded, no field comes twice. It
 * also refuses to return a value as another type (generated code does not check the element types
 * of lists and maps). It uses the peer's protocol, binary or compact, framed or not, also for
 * replies.
 *
 * The code that Thrift 0.17 to 0.24 generates behaves as follows, with this protocol (left) and
 * with the library's own (right; Debian's 0.17):
 *   field twice                     error         | free() of a wrong pointer, up to 0.22
 *   negative length of a binary     error         | crash
 *   list of another element type    error         | desynchronised
 *   100,000 structs in each other   error         | stack overflow
 *   count of 2^31                   error         | waits, or reserves
 *   unknown list of 1 MiB           linear time   | seconds (quadratic), up to 0.24
 *
 * It is a subclass of plain ThriftProtocol, whose instance and class have the same size in all
 * versions. ThriftBinaryProtocol grew in 0.23, so that a subclass built against one library fails
 * with another.
 */

#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>
#include <thrift/c_glib/protocol/thrift_protocol_factory.h>

#include "plugin/frame/message.h"

G_BEGIN_DECLS

#define TPS_TYPE_HOST_PROTOCOL (tps_host_protocol_get_type ())
#define TPS_HOST_PROTOCOL(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), TPS_TYPE_HOST_PROTOCOL, TpsHostProtocol))
#define TPS_IS_HOST_PROTOCOL(obj) (G_TYPE_CHECK_INSTANCE_TYPE ((obj), TPS_TYPE_HOST_PROTOCOL))

typedef struct TpsHostProtocol TpsHostProtocol;

/* The GType of TpsHostProtocol. Thread: any. */
GType tps_host_protocol_get_type (void);

/* Creates a protocol on a TpsHostTransport. On any other transport it can only read messages that
 * it is given, and cannot write. */
ThriftProtocol *tps_host_protocol_new (ThriftTransport *transport);

/* A factory that creates a TpsHostProtocol on every transport. */
ThriftProtocolFactory *tps_host_protocol_factory_new (void);

/* Makes the protocol read `message` (taken over) next, as if it had just been received.
 * `max_elements` as in TpsHostOptions. */
void tps_host_protocol_give_message (TpsHostProtocol *protocol, TpsMessage *message,
                                     guint max_elements);

/* Keeps each message that was read to its end, and its charges, until the next message or the end
 * of the protocol, because a handler still has the objects created from it. */
void tps_host_protocol_keep_messages (TpsHostProtocol *protocol);

/* Makes later writes borrow binaries, until the message that was written is freed. */
void tps_host_protocol_borrow_binaries (TpsHostProtocol *protocol);

/* Removes and returns the message of which only the beginning was read; NULL = there is none. */
TpsMessage *tps_host_protocol_steal_message (TpsHostProtocol *protocol);

/* Makes the rest of the message empty, and its end fail with `reason` (taken over). */
void tps_host_protocol_fail (TpsHostProtocol *protocol, GError *reason);

G_END_DECLS
