/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/call_table.h"

#include "plugin/client/client_call.h"

static guint
list_of (gint32 seqid)
{
  return (guint32) seqid % TPS_CALL_TABLE_LISTS;
}

void
tps_call_table_insert (TpsCallTable *table, TpsClientCall *call)
{
  TpsClientCall **list = &table->lists[list_of (call->seqid)];

  call->next_in_table = *list;
  *list = call;
  table->n_calls += call->bound == 0;
}

TpsClientCall *
tps_call_table_find (const TpsCallTable *table, gint32 seqid)
{
  TpsClientCall *call = table->lists[list_of (seqid)];

  while (call != NULL && call->seqid != seqid)
    call = call->next_in_table;
  return call;
}

void
tps_call_table_remove (TpsCallTable *table, TpsClientCall *call)
{
  TpsClientCall **link = &table->lists[list_of (call->seqid)];

  while (*link != NULL && *link != call)
    link = &(*link)->next_in_table;
  if (*link == NULL)
    return;
  *link = call->next_in_table;
  table->n_calls -= call->bound == 0;
}

TpsClientCall *
tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call)
{
  guint list = 0;

  if (call != NULL && call->next_in_table != NULL)
    return call->next_in_table;
  if (call != NULL)
    list = list_of (call->seqid) + 1;
  while (list < TPS_CALL_TABLE_LISTS && table->lists[list] == NULL)
    list++;
  return list < TPS_CALL_TABLE_LISTS ? table->lists[list] : NULL;
}
