/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/contract.h"

#include "plugin/wire/wire_chunks.h"
#include "plugin/wire/wire_durability.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_parameter_server.h"
#include "plugin/wire/wire_rendezvous.h"
#include "plugin/wire/wire_session.h"
#include "plugin/wire/wire_trainer.h"

const TpsRpc *const tps_contract[] = {
  &tps_begin_transfer_rpc,
  &tps_put_chunk_rpc,
  &tps_run_transfer_rpc,
  &tps_get_chunk_rpc,
  &tps_end_transfer_rpc,
  &tps_flush_rpc,
  &tps_read_log_rpc,
  &tps_snapshot_rpc,
  &tps_restore_rpc,
  &tps_import_table_rpc,
  &tps_create_table_rpc,
  &tps_list_tables_rpc,
  &tps_drop_table_rpc,
  &tps_lookup_bags_rpc,
  &tps_lookup_rows_rpc,
  &tps_apply_row_gradients_rpc,
  &tps_apply_bag_gradients_rpc,
  &tps_lookup_rows_with_lsns_rpc,
  &tps_assign_rows_rpc,
  &tps_open_segment_rpc,
  &tps_release_segments_rpc,
  &tps_close_segments_rpc,
  &tps_open_lookup_segment_rpc,
  &tps_describe_rpc,
  &tps_get_metrics_rpc,
  &tps_clear_metrics_rpc,
  &tps_reload_certificates_rpc,
  &tps_reload_access_rpc,
  &tps_set_log_level_rpc,
  &tps_forget_push_clients_rpc,
  &tps_average_gradient_rpc,
  &tps_reset_state_rpc,
  &tps_init_model_rpc,
  &tps_get_model_rpc,
  &tps_update_and_fetch_model_rpc,
  &tps_rendezvous_put_rpc,
  &tps_rendezvous_get_rpc,
  &tps_rendezvous_add_rpc,
  &tps_rendezvous_remove_rpc,
  &tps_authenticate_rpc,
  &tps_set_context_rpc,
  &tps_train_rpc,
  &tps_train_status_rpc,
  &tps_cancel_train_rpc,
  NULL,
};
