/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/tls/tls_acceptor.h"

#include <errno.h>

#include "runtime/base/error.h"

#define FIRST_BYTE_OF_TLS 0x16

struct TpsTlsAcceptor
{
  TpsNetChannel channel; /* must be first */
  TpsTls *tls;
  gboolean is_required;
  TpsWorkerPool *workers;
  TpsBudget *budget;
  TpsTlsCounts counts;
};

static TpsNetChannel *
recognize (TpsNetChannel *channel, gint fd, GError **error)
{
  const TpsTlsAcceptor *acceptor = (const TpsTlsAcceptor *) channel;
  guint8 first;
  gssize n = recv (fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return NULL;
  if (n <= 0)
    return &tps_plain_channel; /* its `receive` finds the same end or error, and reports it */
  if (first == FIRST_BYTE_OF_TLS)
    return tps_tls_accept (acceptor->tls, acceptor->workers, acceptor->budget, &acceptor->counts,
                           error);
  if (!acceptor->is_required)
    return &tps_plain_channel;
  return tps_fail_null (error, TPS_ERROR_PERMISSION_DENIED,
                        "the peer sent plain bytes, but this server requires TLS (--tls=required)");
}

static const TpsNetChannelOps ops = { .recognize = recognize };

static const TpsFamily handshakes = TPS_FAMILY (
    COUNTER, "tls_handshakes_total", "TLS handshakes that ended, by result: done or failed.",
    .labels = { "result" });
static const TpsFamily current_handshakes = TPS_FAMILY (
    GAUGE, "tls_handshakes_in_progress",
    "TLS handshakes that wait for their clients or for a tps-tls thread, or are being computed.");
static const TpsFamily kernel_connections = TPS_FAMILY (
    COUNTER, "tls_kernel_connections_total",
    "Encrypted connections whose bytes the kernel encrypts.");
static const TpsFamily certificate_expiry = TPS_FAMILY (
    GAUGE, "tls_certificate_expiry_timestamp_seconds",
    "The time at which the certificate of the server expires, in seconds since 1970.");

static gint64
read_expiry (gpointer tls)
{
  return tps_tls_get_expiry_s (tls);
}

static void
unref_tls (gpointer tls)
{
  tps_tls_unref (tls);
}

TpsTlsAcceptor *
tps_tls_acceptor_new (const TpsTlsAcceptorOptions *options)
{
  TpsTlsAcceptor *acceptor = g_new0 (TpsTlsAcceptor, 1);
  TpsCounters *counters = options->counters;

  acceptor->channel.ops = &ops;
  acceptor->channel.may_idle = !options->is_required;
  acceptor->tls = tps_tls_ref (options->tls);
  acceptor->is_required = options->is_required;
  acceptor->workers = options->workers;
  acceptor->budget = tps_budget_ref (options->budget);
  acceptor->counts = (TpsTlsCounts) {
    .done = tps_counters_use_counter (counters, &handshakes, "done", NULL),
    .failed = tps_counters_use_counter (counters, &handshakes, "failed", NULL),
    .current = tps_counters_use_gauge (counters, &current_handshakes, NULL, NULL),
    .kernel = tps_counters_use_counter (counters, &kernel_connections, NULL, NULL),
  };
  if (counters != NULL)
    tps_counters_add_reader (counters, &certificate_expiry, NULL, NULL, read_expiry,
                             tps_tls_ref (options->tls), unref_tls);
  return acceptor;
}

void
tps_tls_acceptor_free (TpsTlsAcceptor *acceptor)
{
  if (acceptor == NULL)
    return;
  tps_tls_unref (acceptor->tls);
  tps_budget_unref (acceptor->budget);
  g_free (acceptor);
}

TpsNetChannel *
tps_tls_acceptor_get_channel (TpsTlsAcceptor *acceptor)
{
  return &acceptor->channel;
}
