/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A program with its own Thrift server, to which ThriftPS was added later.
 *
 *   fleet_host [--simple] [--hardened | --hardened-processor | --own-server] [--generated]
 *              [--ntrainer=N] [--stall-ms=N] [--tls-cert=FILE]
 *
 * It serves its Journal as the default service, and the project's services as ps.ParameterServer,
 * ps.Rendezvous and ps.Node. Without --hardened it uses only the library: framed transport, binary
 * protocol and ThriftMultiplexedProcessor. With --hardened-processor only the processor is the
 * project's. With --own-server, a TpsServer with only the project's services replaces the host's
 * server. With --tls-cert, that server encrypts connections of clients that use TLS. With
 * --generated, the project's services are generated processors. The program prints "listening on
 * PORT", and exits when its standard input ends. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thrift/c_glib/protocol/thrift_binary_protocol_factory.h>
#include <thrift/c_glib/transport/thrift_framed_transport_factory.h>
#include <thriftps/plugin.h>
#include <unistd.h>

#include "plugin/glib/handler.h"
#include "tests/integration/host/host_server.h"
#include "tests/integration/host/journal.h"

typedef struct
{
  gboolean simple;
  gboolean hardened;
  gboolean hardened_processor; /* only the processor, on the library's transports and protocols */
  gboolean own_server;
  gboolean generated;
  guint n_trainers;
  guint stall_ms;
  const gchar *certificate; /* NULL = none */
} Flags;

static gboolean
parse_flag (const gchar *text, Flags *flags)
{
  if (strcmp (text, "--simple") == 0)
    flags->simple = TRUE;
  else if (strcmp (text, "--hardened") == 0)
    flags->hardened = TRUE;
  else if (strcmp (text, "--hardened-processor") == 0)
    flags->hardened_processor = TRUE;
  else if (strcmp (text, "--own-server") == 0)
    flags->own_server = TRUE;
  else if (strcmp (text, "--generated") == 0)
    flags->generated = TRUE;
  else if (g_str_has_prefix (text, "--ntrainer="))
    flags->n_trainers = (guint) atoi (strchr (text, '=') + 1);
  else if (g_str_has_prefix (text, "--stall-ms="))
    flags->stall_ms = (guint) atoi (strchr (text, '=') + 1);
  else if (g_str_has_prefix (text, "--tls-cert="))
    flags->certificate = strchr (text, '=') + 1;
  else
    return FALSE;
  return TRUE;
}

/* Registers the project's services as generated processors of the contract. */
static void
register_generated (TpsPlugin *plugin, ThriftMultiplexedProcessor *multiplexed, TpsHostKind kind)
{
  const struct
  {
    const gchar *name;
    GType type;
  } services[] = {
    { "ps.ParameterServer", TPS_TYPE_PARAMETER_SERVER_HANDLER },
    { "ps.EmbeddingTable", TPS_TYPE_EMBEDDING_TABLE_HANDLER },
    { "ps.Rendezvous", TPS_TYPE_RENDEZVOUS_HANDLER },
    { "ps.Node", TPS_TYPE_NODE_HANDLER },
    { "ps.Memory", TPS_TYPE_MEMORY_HANDLER },
    { "ps.Chunks", TPS_TYPE_CHUNKS_HANDLER },
  };
  GError *error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (services); i++)
    {
      gpointer handler = tps_handler_new (services[i].type, plugin, kind, &error);
      ThriftProcessor *processor;

      if (handler == NULL)
        g_error ("%s", error->message);
      processor = tps_handler_new_processor (handler);
      thrift_multiplexed_processor_register_processor (THRIFT_PROCESSOR (multiplexed),
                                                       services[i].name, processor, NULL);
      g_object_unref (processor);
      g_object_unref (handler);
    }
}

static ThriftProcessor *
make_processor (TpsPlugin *plugin, const Flags *flags)
{
  ThriftMultiplexedProcessor *multiplexed = g_object_new (THRIFT_TYPE_MULTIPLEXED_PROCESSOR, NULL);
  ThriftProcessor *journal = journal_processor_new ();
  ThriftProcessor *hardened;
  TpsHostKind kind = flags->simple ? TPS_HOST_SINGLE_CONNECTION : TPS_HOST_THREADED;
  GError *error = NULL;

  thrift_multiplexed_processor_register_processor (THRIFT_PROCESSOR (multiplexed), "Journal",
                                                   journal, NULL);
  g_object_unref (journal);
  if (flags->generated)
    register_generated (plugin, multiplexed, kind);
  else if (!tps_plugin_register (plugin, multiplexed, "ps.", kind, &error))
    g_error ("%s", error->message);
  if (!flags->hardened && !flags->hardened_processor)
    return THRIFT_PROCESSOR (multiplexed);
  hardened = tps_harden_processor (THRIFT_PROCESSOR (multiplexed), NULL);
  g_object_unref (multiplexed);
  return hardened;
}

static HostServer *
start (TpsPlugin *plugin, const Flags *flags)
{
  TpsHostOptions options = { .stall_timeout_ms = flags->stall_ms };
  ThriftProcessor *processor = make_processor (plugin, flags);
  ThriftTransportFactory *transports = flags->hardened
                                           ? tps_host_transport_factory_new (&options)
                                           : g_object_new (THRIFT_TYPE_FRAMED_TRANSPORT_FACTORY,
                                                           NULL);
  ThriftProtocolFactory *protocols = flags->hardened
                                         ? tps_host_protocol_factory_new ()
                                         : g_object_new (THRIFT_TYPE_BINARY_PROTOCOL_FACTORY, NULL);
  HostServer *server;

  tps_register_types (journal_get_types, journal_n_get_types);
  server = host_server_start (flags->simple, processor, transports, protocols);
  g_object_unref (processor);
  g_object_unref (transports);
  g_object_unref (protocols);
  return server;
}

static void
wait_for_end_of_input (void)
{
  gchar byte;

  while (read (STDIN_FILENO, &byte, 1) > 0)
    ;
}

static TpsTls *
load_certificate (const Flags *flags)
{
  const TpsTlsOptions options = { .certificate = flags->certificate };
  g_autoptr (GError) error = NULL;
  TpsTls *tls;

  if (flags->certificate == NULL)
    return NULL;
  tls = tps_tls_new (&options, &error);
  if (tls == NULL)
    g_error ("%s", error->message);
  return tls;
}

static void
serve_in_our_server (TpsPlugin *plugin, const Flags *flags)
{
  g_autoptr (TpsTls) tls = load_certificate (flags);
  TpsServerOptions options = { .default_service = "ParameterServer",
                               .patience_ns = (gint64) flags->stall_ms * 1000000,
                               .tls = tls };
  g_autoptr (TpsServer) server = tps_plugin_new_server (plugin, &options);
  g_autoptr (GError) error = NULL;

  if (!tps_server_listen (server, "127.0.0.1:0", &error) || !tps_server_start (server, &error))
    g_error ("%s", error->message);
  printf ("listening on %s\n", tps_server_get_addresses (server)[0]);
  fflush (stdout);
  wait_for_end_of_input ();
  tps_server_stop (server);
}

static void
serve_in_own_server (TpsPlugin *plugin, const Flags *flags)
{
  HostServer *server = start (plugin, flags);

  printf ("listening on %u\n", host_server_get_port (server));
  fflush (stdout);
  wait_for_end_of_input ();
  tps_plugin_shut_down (plugin);
  host_server_free (server);
}

int
main (int argc, char **argv)
{
  Flags flags = { .n_trainers = 1 };
  TpsPluginOptions options = { .name = "fleet", .n_workers = 2 };
  g_autoptr (GError) error = NULL;
  g_autoptr (TpsPlugin) plugin = NULL;

  for (gint i = 1; i < argc; i++)
    if (!parse_flag (argv[i], &flags))
      g_error ("unknown flag %s", argv[i]);
  options.n_trainers = flags.n_trainers;
  plugin = tps_plugin_new (&options, &error);
  if (plugin == NULL)
    g_error ("%s", error->message);
  if (flags.own_server)
    serve_in_our_server (plugin, &flags);
  else
    serve_in_own_server (plugin, &flags);
  return 0;
}
