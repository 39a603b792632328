/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/load.h"
#include "bench/transfer/row.h"
#include "bench/transfer/tensor.h"
#include "plugin/client/client.h"
#include "runtime/error.h"
#include "runtime/sync.h"

#define CALL_NS G_GINT64_CONSTANT (60000000000)

typedef struct Run Run;

/* One call in flight; the next one on its connection takes its place. */
typedef struct
{
  Run *run;
  TpsClient *client;
  gint64 start_ns;
} Slot;

struct Run
{
  const TpsTransferRow *row;
  TpsTransferTensor tensor;
  gint64 *ns;

  TpsMutex lock;
  TpsCond ended;
  guint n_started;
  guint n_ended; /* calls that came back */
  guint n_slots; /* that still work */
  GError *error;
};

typedef struct
{
  const gchar *address;
  GPtrArray *clients; /* connections stay from row to row */
  TpsBuffer *memory;
} Loader;

static void
write_arguments (TpsWriter *out, gconstpointer data)
{
  const Run *run = data;

  if (run->row->op == TPS_TRANSFER_PULL)
    {
      tps_writer_field (out, 1, TPS_WIRE_I64);
      tps_writer_i64 (out, (gint64) run->row->n_bytes);
      return;
    }
  tps_writer_field (out, 1, TPS_WIRE_STRUCT);
  tps_transfer_tensor_write (out, &run->tensor);
}

static gboolean
is_right (const Run *run, TpsReader *result, TpsWireType type)
{
  TpsTransferTensor tensor;

  if (run->row->op == TPS_TRANSFER_PUSH)
    return type == TPS_WIRE_STOP;
  return type == TPS_WIRE_STRUCT && tps_transfer_tensor_read (result, &tensor)
         && tensor.n_bytes == run->row->n_bytes;
}

/* Whether the slot goes on with another call. */
static gboolean
take_answer (Run *run, gint64 ns, gboolean right, const GError *error)
{
  gboolean goes_on;

  tps_mutex_lock (&run->lock);
  run->ns[run->n_ended++] = ns;
  if (error != NULL && run->error == NULL)
    run->error = g_error_copy (error);
  else if (!right && run->error == NULL)
    g_set_error (&run->error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong answer");
  goes_on = run->error == NULL && run->n_started < run->row->n_calls;
  if (goes_on)
    run->n_started++;
  else if (--run->n_slots == 0)
    tps_cond_signal (&run->ended);
  tps_mutex_unlock (&run->lock);
  return goes_on;
}

static void start_call (Slot *slot);

static void
on_answer (gpointer data, TpsReader *result, TpsWireType type, const GError *error)
{
  Slot *slot = data;
  gint64 ns = tps_clock_now_ns () - slot->start_ns;
  gboolean right = error == NULL && is_right (slot->run, result, type);

  if (take_answer (slot->run, ns, right, error))
    start_call (slot);
}

static void
start_call (Slot *slot)
{
  slot->start_ns = tps_clock_now_ns ();
  tps_client_call (slot->client, "Transfer", tps_transfer_op_name (slot->run->row->op),
                   write_arguments, slot->run, slot->start_ns + CALL_NS, on_answer, slot);
}

static gboolean
connect_clients (Loader *loader, guint n, GError **error)
{
  TpsClientOptions options = { .address = loader->address };

  while (loader->clients->len < n)
    {
      TpsClient *client = tps_client_new (&options, error);

      if (client == NULL)
        return FALSE;
      g_ptr_array_add (loader->clients, client);
    }
  return TRUE;
}

static void
run_slots (Loader *loader, Run *run)
{
  guint n_slots = MIN (run->row->n_connections * run->row->n_in_flight, run->row->n_calls);
  g_autofree Slot *slots = g_new0 (Slot, n_slots);

  run->n_slots = run->n_started = n_slots;
  for (guint i = 0; i < n_slots; i++)
    {
      slots[i] = (Slot) { .run = run,
                          .client = loader->clients->pdata[i % run->row->n_connections] };
      start_call (&slots[i]);
    }
  tps_mutex_lock (&run->lock);
  while (run->n_slots > 0)
    tps_cond_wait (&run->ended, &run->lock);
  tps_mutex_unlock (&run->lock);
}

static gint64
run_row (gpointer user_data, const TpsTransferRow *row, gint64 *ns, GError **error)
{
  Loader *loader = user_data;
  Run run = { .row = row,
              .tensor = { .buffer = loader->memory, .n_bytes = row->n_bytes },
              .ns = ns };
  gint64 start_ns = tps_clock_now_ns ();

  if (!connect_clients (loader, row->n_connections, error))
    return -1;
  tps_mutex_init (&run.lock);
  tps_cond_init (&run.ended);
  run_slots (loader, &run);
  tps_mutex_clear (&run.lock);
  tps_cond_clear (&run.ended);
  if (run.error == NULL)
    return tps_clock_now_ns () - start_ns;
  g_propagate_error (error, run.error);
  return -1;
}

static void
free_client (gpointer client)
{
  tps_client_free (client);
}

gint
tps_transfer_load_ours (const gchar *address)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (free_client);
  g_autoptr (TpsBuffer) memory = tps_buffer_new_zeroed (TPS_TRANSFER_MAX_BYTES);
  Loader loader = { address, clients, memory };

  return tps_transfer_serve_rows (run_row, &loader);
}
