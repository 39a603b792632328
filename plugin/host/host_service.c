/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/host_service.h"

#include "plugin/host/harden.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transport.h"
#include "runtime/base/error.h"

struct TpsHostService
{
  gchar *name;
  ThriftProcessor *processor; /* hardened */
};

/* Creates a protocol that reads the message of the call and keeps the reply. The caller owns the
 * protocol. */
static ThriftProtocol *
open_call (TpsCall *call)
{
  TpsWriterForm form;
  ThriftTransport *box;
  ThriftProtocol *protocol;

  tps_call_get_reply_form (call, &form);
  box = tps_host_transport_new_box (&form);
  protocol = tps_host_protocol_new (box);
  g_object_unref (box);
  tps_host_protocol_keep_messages (TPS_HOST_PROTOCOL (protocol));
  tps_host_protocol_give_message (TPS_HOST_PROTOCOL (protocol), tps_call_take_message (call),
                                  tps_host_options_get_max_elements (NULL));
  return protocol;
}

static void
handle (TpsCall *call, gpointer object)
{
  const TpsHostService *service = object;
  ThriftProtocol *protocol = open_call (call);
  g_autoptr (GError) error = NULL;
  TpsWriter *reply = NULL;
  const TpsGrant *outer = tps_grant_set_current (call->grant);

  if (thrift_processor_process (service->processor, protocol, protocol, &error))
    reply = tps_host_transport_steal_reply (TPS_HOST_TRANSPORT (protocol->transport));
  tps_grant_set_current (outer);
  g_object_unref (protocol);
  if (error != NULL)
    tps_call_reply_error (call, error);
  else
    tps_call_reply_message (call, reply);
}

TpsHostService *
tps_host_service_new (const gchar *name, ThriftProcessor *processor)
{
  TpsHostService *service = g_new0 (TpsHostService, 1);

  service->name = g_strdup (name);
  service->processor = tps_harden_processor (processor, NULL);
  return service;
}

void
tps_host_service_free (TpsHostService *service)
{
  if (service == NULL)
    return;
  g_object_unref (service->processor);
  g_free (service->name);
  g_free (service);
}

TpsService
tps_host_service_get (TpsHostService *service)
{
  static const TpsServiceHooks hooks = { .handle_other = handle, .other_right = TPS_RIGHT_PUSH };

  return (TpsService) { .name = service->name, .object = service, .hooks = &hooks };
}
