/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Failures of calls: ServiceError of thrift/node.thrift, and Thrift's own TApplicationException.
 *
 * Reading is lenient (tps_fields_read_leniently()): texts become valid UTF-8 of at most 4096 bytes,
 * and a transfer that is not a valid name becomes NULL. The caller must clear structs that were
 * read. Thread: any.
 */

#pragma once

#include "plugin/wire/wire_node.h"

G_BEGIN_DECLS

/* The field `failure` of every method's result; its value is a TpsServiceError. */
extern const TpsField tps_failure_field;

void tps_service_error_read (TpsReader *in, TpsServiceError *failure);

typedef struct
{
  gchar *message; /* NULL = missing */
  gint32 kind;
} TpsApplicationException;

void tps_application_exception_read (TpsReader *in, TpsApplicationException *exception);
void tps_application_exception_write (TpsWriter *out, const TpsApplicationException *exception);
void tps_application_exception_clear (TpsApplicationException *exception);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsApplicationException, tps_application_exception_clear)

G_END_DECLS
