/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A ThriftProtocol for hosts whose readers, generated or not, never see a malformed byte.
 *
 * It answers reads from one message that was received and checked as a whole, so what a reader is
 * told is consistent: every length, count and type is true, nesting is bounded, no field comes
 * twice. It also refuses to hand out a value as another type than the one that stands there
 * (generated code does not look at the element types of lists and maps). Binary or compact, framed
 * or not, is what the peer used, and replies look alike.
 *
 * What generated code of 0.17 to 0.24 does with it, and with the library's own protocols (Debian's
 * 0.17):
 *   field twice                     error         | free() of a wrong pointer, up to 0.22
 *   negative length of a binary     error         | crash
 *   list of another element type    error         | desynchronised
 *   100,000 structs in each other   error         | stack overflow
 *   count of 2^31                   error         | waits, or reserves
 *   unknown list of 1 MiB           linear time   | seconds (quadratic), up to 0.24
 *
 * Subclasses plain ThriftProtocol, whose instance and class have the same size in all versions;
 * ThriftBinaryProtocol grew in 0.23, so that a subclass built against one library fails on another.
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

GType tps_host_protocol_get_type (void);

/* On a TpsHostTransport. On any other transport it can only read messages that it is given, and
 * write nothing. */
ThriftProtocol *tps_host_protocol_new (ThriftTransport *transport);

/* Makes a TpsHostProtocol on every transport. */
ThriftProtocolFactory *tps_host_protocol_factory_new (void);

/* Gives it `message` (taken over) to read next, as if it had just been received. `max_elements` as
 * in TpsHostOptions. */
void tps_host_protocol_give_message (TpsHostProtocol *protocol, TpsMessage *message,
                                     guint max_elements);

/* A message that was read to its end stays until the next one or the end of the protocol, and so
 * does what it is charged: for as long as a handler has the objects that were made from it. */
void tps_host_protocol_keep_messages (TpsHostProtocol *protocol);

/* From now on binaries that are written are borrowed, until the message that was written is
 * freed. */
void tps_host_protocol_borrow_binaries (TpsHostProtocol *protocol);

/* The message whose beginning was read and nothing more, the caller's; NULL where there is none. */
TpsMessage *tps_host_protocol_steal_message (TpsHostProtocol *protocol);

/* Makes the rest of the message read as empty, and its end as the error `reason` (taken over). */
void tps_host_protocol_fail (TpsHostProtocol *protocol, GError *reason);

G_END_DECLS
