/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/group/staging.h"

#include <string.h>

static TpsDevice *
device_of (TpsStaging *self)
{
  return &self->communicator->device->parent;
}

/* Allocates the members of a slot that it does not have yet. */
static gboolean
fill_slot (TpsStaging *self, TpsStagingSlot *slot, GError **error)
{
  if (slot->room == NULL)
    slot->room = tps_cuda_alloc (device_of (self), TPS_STAGING_BYTES, error);
  if (slot->room != NULL && slot->host == NULL)
    slot->host = tps_cuda_alloc_host (device_of (self), TPS_STAGING_BYTES, error);
  if (slot->host != NULL && slot->event == NULL)
    slot->event = tps_cuda_event_new (device_of (self), error);
  return slot->event != NULL;
}

void
tps_staging_clear (TpsStaging *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->slots); i++)
    {
      g_clear_pointer (&self->slots[i].room, tps_buffer_unref);
      g_clear_pointer (&self->slots[i].host, tps_buffer_unref);
      g_clear_pointer (&self->slots[i].event, tps_cuda_event_free);
    }
}

/* Waits for the last work on a slot, and copies its output to pageable memory. */
static gboolean
free_slot (TpsStaging *self, TpsStagingSlot *slot, GError **error)
{
  if (!tps_communicator_wait (self->communicator, slot->event, "waiting", error))
    return FALSE;
  if (slot->to != NULL)
    memcpy (slot->to, tps_buffer_get_data (slot->host), slot->n_bytes);
  slot->to = NULL;
  return TRUE;
}

TpsStagingSlot *
tps_staging_take (TpsStaging *self, GError **error)
{
  TpsStagingSlot *slot = &self->slots[self->next];

  if (!fill_slot (self, slot, error) || !free_slot (self, slot, error))
    return NULL;
  self->next = (self->next + 1) % G_N_ELEMENTS (self->slots);
  return slot;
}

void
tps_staging_bring_in (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gconstpointer from,
                      TpsCudaPlace place, gsize n_bytes)
{
  if (place == TPS_CUDA_PLACE_PAGEABLE)
    {
      memcpy (tps_buffer_get_data (slot->host), from, n_bytes);
      from = tps_buffer_get_data (slot->host);
    }
  tps_cuda_ops.copy (self->communicator->stream, tps_buffer_get_data (slot->room) + offset, from,
                     n_bytes);
}

void
tps_staging_bring_out (TpsStaging *self, TpsStagingSlot *slot, gsize offset, gpointer to,
                       TpsCudaPlace place, gsize n_bytes)
{
  TpsStream *stream = self->communicator->stream;

  if (place == TPS_CUDA_PLACE_PAGEABLE)
    {
      slot->to = to;
      slot->n_bytes = n_bytes;
      to = tps_buffer_get_data (slot->host);
    }
  tps_cuda_ops.copy (stream, to, tps_buffer_get_data (slot->room) + offset, n_bytes);
  tps_cuda_event_record (slot->event, stream);
}

gboolean
tps_staging_drain (TpsStaging *self, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->slots); i++)
    if (self->slots[i].event != NULL && !free_slot (self, &self->slots[i], error))
      return FALSE;
  return TRUE;
}

void
tps_staging_drop (TpsStaging *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->slots); i++)
    self->slots[i].to = NULL;
}
