/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A ThriftProtocol for hosts that protects generated and other readers from malformed bytes.
 *
 * It reads values from a message that was received and checked as a whole, so they are consistent:
 * every length, count and type is correct, nesting is bounded, and no field occurs twice. It also
 * refuses to return a value as a different type (generated code does not check the element types of
 * lists and maps). Replies use the peer's protocol, binary or compact, framed or not.
 *
 * The code that Thrift 0.17 to 0.24 generates behaves as follows, with this protocol (left) and
 * with the library's own protocol (right; Debian's 0.17):
 *   field twice                     error         | free() of a wrong pointer, up to 0.22
 *   negative length of a binary     error         | crash
 *   list of a different type        error         | desynchronised
 *   100,000 nested structs          error         | stack overflow
 *   count of 2^31                   error         | waits, or reserves memory
 *   unknown list of 1 MiB           linear time   | seconds (quadratic), up to 0.24
 *
 * It is a subclass of plain ThriftProtocol, whose instance and class have the same size in all
 * versions. ThriftBinaryProtocol grew in 0.23, so a subclass that was built with an earlier version
 * fails with a later one.
 */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/frame/message.h"

G_BEGIN_DECLS

#define TPS_TYPE_HOST_PROTOCOL (tps_host_protocol_get_type ())
#define TPS_HOST_PROTOCOL(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), TPS_TYPE_HOST_PROTOCOL, TpsHostProtocol))
#define TPS_IS_HOST_PROTOCOL(obj) (G_TYPE_CHECK_INSTANCE_TYPE ((obj), TPS_TYPE_HOST_PROTOCOL))

typedef struct TpsHostProtocol TpsHostProtocol;

GType tps_host_protocol_get_type (void);

/* Creates a protocol on a TpsHostTransport. The caller owns it. On any other transport, the
 * protocol reads only messages of tps_host_protocol_give_message(), and cannot write. */
ThriftProtocol *tps_host_protocol_new (ThriftTransport *transport);

/* Makes the protocol read `message` next, as if the message had just been received. Takes ownership
 * of `message`. `max_elements` is the limit of TpsHostOptions; 0 allows no elements. */
void tps_host_protocol_give_message (TpsHostProtocol *protocol, TpsMessage *message,
                                     guint max_elements);

/* Makes the protocol keep each message that was read to its end, with its charges, until the next
 * message is read or the protocol is freed. This is needed while a handler uses objects created
 * from the message. */
void tps_host_protocol_keep_messages (TpsHostProtocol *protocol);

/* Makes later writes borrow the bytes of binaries, until the written message is freed. */
void tps_host_protocol_borrow_binaries (TpsHostProtocol *protocol);

/* Removes and returns the message whose beginning has been read and whose end has not. The caller
 * owns it. NULL = there is no such message. */
TpsMessage *tps_host_protocol_steal_message (TpsHostProtocol *protocol);

G_END_DECLS
