/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A host's own processor behind the checks that ours has.
 *
 *   processor = tps_harden_processor (THRIFT_PROCESSOR (multiplexed), NULL);
 *
 * Every call is received and checked as a whole before the host's processor hears of it, through whatever transport and
 * protocol it came, and the processor reads it from a TpsHostProtocol. A call that is malformed closes the connection;
 * bytes that the library's own transport or protocol cannot survive (Debian's 0.17: a zero-length frame, a field split
 * over two frames) need TpsHostTransport and TpsHostProtocol as well.
 *
 *  what                                                                   where                    here
 *  a message named like a service, without a method; an empty name, or    multiplexed processor,   answered, or passed on to
 *  ":": crash. Two colons: the processor is called with an error set      library 0.17 to 0.24     the default service
 *  a message that could not be read is looked at; its error may be unset  library up to 0.24       not looked at
 *  an unknown service is answered under half its name                     library 0.17 to 0.24     under all of it
 *  an unknown method recurses without end; a service rejects every method generators up to 0.23;   repaired, see library.h
 *                                                                         0.23 and 0.24
 *  an unknown method of any type is skipped to any depth                  library up to 0.23       depth is bounded
 *  a oneway handler that fails leaves half a message before the next      generators 0.17 to 0.24  oneway calls have nowhere
 *  reply; an unknown oneway method is answered                            and later                to write to
 *  a handler that sets an error and an exception, or succeeds with an     generators 0.17 to 0.24  the error is cleared
 *  error set, poisons the connection                                      and later
 *  a caller that passes no GError: crash                                  generators, all          always passed
 */

#pragma once

#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/host/library.h"
#include "plugin/host/stream.h"

G_BEGIN_DECLS

#define TPS_TYPE_HARDENED_PROCESSOR (tps_hardened_processor_get_type ())

GType tps_hardened_processor_get_type (void);

/* Takes a reference of `processor`: a generated one, a ThriftMultiplexedProcessor with all its services registered, or any
 * other. Repairs its class, those of its services, and the library (library.h). Of `options` (NULL = defaults) only the
 * limits of messages and the pool apply, and only to messages that come through the library's own transports.
 * Thread: one, before the server starts; process() any that the processor inside allows. */
ThriftProcessor *tps_harden_processor (ThriftProcessor *processor, const TpsHostOptions *options);

G_END_DECLS
