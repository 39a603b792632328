/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests two tenants of one server, which a file of rules distinguishes. The crowd connects by TCP,
 * and the quiet tenant by the Unix socket. */

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "plugin/chunks/chunk_layout.h"
#include "plugin/client/client.h"
#include "plugin/client/remote_tables.h"
#include "plugin/plugin.h"
#include "plugin/wire/wire_chunks.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/base/error.h"
#include "tests/integration/tables/table_server.h"
#include "tests/plugin/client/call_sync.h"
#include "tests/plugin/server/raw_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace {

using thriftps_test::ErrorCode;
using thriftps_test::MessageBytes;
using thriftps_test::RawClient;
using tps_test::new_socket_path;

constexpr gint64 kRows = 1000;
constexpr gint64 kManyRows = 50000;
constexpr gsize kChunkBytes = (gsize) 1 << 20;

gint64
deadline ()
{
  return std::chrono::duration_cast<std::chrono::nanoseconds> (
             std::chrono::steady_clock::now ().time_since_epoch () + std::chrono::minutes (2))
      .count ();
}

/* A server with rules. `tenants` is the text of the member "tenants". */
class TenantsTest : public testing::Test
{
protected:
  TenantsTest ()
      : rules_ ("rules_" + std::to_string (getpid ()) + ".json"), tokens_ (rules_ + ".tokens")
  {
    g_autofree gchar *line = nullptr;
    g_autofree gchar *token = tps_token_make ("late", nullptr, &line, nullptr);

    token_ = token;
    g_file_set_contents (tokens_.c_str (), line, -1, nullptr);
  }

  ~TenantsTest () override
  {
    stop ();
    unlink (rules_.c_str ());
    unlink (tokens_.c_str ());
  }

  void
  write_rules (const std::string &tenants)
  {
    std::string text = std::string (R"({ "rules": [)")
                       + (is_open_ ? R"(
      { "principals": ["anonymous"], "rights": ["read", "push", "admin"], "tables": ["*"],
        "tenant": "crowd" },)"
                                   : "")
                       + R"(
      { "principals": ["uid:*", "token:*"], "rights": ["read", "push", "admin"], "tables": ["*"],
        "tenant": "quiet" } ], "tenants": )"
                       + tenants + "}";

    ASSERT_TRUE (g_file_set_contents (rules_.c_str (), text.c_str (), -1, nullptr));
  }

  void
  start (const std::string &tenants, const gchar *data = nullptr)
  {
    TpsAccessOptions access_options = {};
    TpsPluginOptions options = limits_;
    g_autoptr (GError) error = nullptr;

    write_rules (tenants);
    access_options.rules_file = rules_.c_str ();
    access_options.token_file = tokens_.c_str ();
    access_ = tps_access_new (&access_options, &error);
    ASSERT_NE (access_, nullptr) << error->message;
    options.access = access_;
    options.n_workers = 2;
    options.n_trainers = 1;
    options.data_folder = data;
    plugin_ = tps_plugin_new (&options, &error);
    ASSERT_NE (plugin_, nullptr) << error->message;
    server_ = tps_plugin_new_server (plugin_, nullptr);
    ASSERT_TRUE (tps_server_listen (server_, "127.0.0.1:0", &error)) << error->message;
    ASSERT_TRUE (tps_server_listen (server_, ("unix:" + new_socket_path ()).c_str (), &error))
        << error->message;
    ASSERT_TRUE (tps_server_start (server_, &error)) << error->message;
    ASSERT_TRUE (tps_plugin_wait (plugin_, &error)) << error->message;
  }

  void
  stop ()
  {
    if (server_ != nullptr)
      tps_server_stop (server_);
    g_clear_object (&server_);
    g_clear_pointer (&plugin_, tps_plugin_free);
    g_clear_pointer (&access_, tps_access_unref);
  }

  TpsRemoteTables *
  connect (bool is_quiet)
  {
    const gchar *address = tps_server_get_addresses (server_)[is_quiet ? 1 : 0];
    TpsRemoteTablesOptions options = {};

    options.addresses = &address;
    options.n_addresses = 1;
    return tps_remote_tables_new (&options, nullptr);
  }

  std::string
  create (TpsRemoteTables *tables, const gchar *name, gint64 rows = kRows)
  {
    g_auto (TpsTableSpec) spec = {};
    TpsTablePlacement whole = { TPS_SHARD_WHOLE, 0 };
    g_autoptr (GError) error = nullptr;

    tps_table_spec_init (&spec, name, rows, 4);
    return tps_remote_tables_create_spec (tables, &spec, &whole, deadline (), &error)
               ? ""
               : error->message;
  }

  static std::string
  look_up (TpsRemoteTables *tables, const gchar *name, gint64 n_rows, gint64 until_ns)
  {
    std::vector<gint64> ids ((size_t) n_rows, 7);
    TpsTensorView view = { { TPS_DTYPE_INT64, 1, { n_rows } }, ids.data () };
    TpsTensor rows = {};
    g_autoptr (GError) error = nullptr;
    bool ok = tps_remote_tables_lookup_rows_sync (tables, name, view, until_ns, &rows, &error);

    tps_tensor_clear (&rows);
    return ok ? "" : error->message;
  }

  /* Pushes gradients of the first `n_rows` rows. */
  static std::string
  push (TpsRemoteTables *tables, const gchar *name, gint64 n_rows, gint64 until_ns)
  {
    std::vector<gint64> ids ((size_t) n_rows);
    std::vector<gfloat> gradients ((size_t) n_rows * 4, 1);
    TpsTensorView indices = { { TPS_DTYPE_INT64, 1, { n_rows } }, ids.data () };
    TpsTensorView values = { { TPS_DTYPE_FLOAT32, 2, { n_rows, 4 } }, gradients.data () };
    g_autoptr (GError) error = nullptr;

    std::iota (ids.begin (), ids.end (), 0);
    return tps_remote_tables_apply_rows_sync (tables, name, indices, values, until_ns, &error)
               ? ""
               : error->message;
  }

  TpsTenantStatus
  status (const gchar *tenant)
  {
    TpsTenantStatus status;

    tps_tenant_get_status (tps_quotas_find (plugin_->quotas, tenant), &status);
    return status;
  }

  TpsPluginOptions limits_ = {};
  bool is_open_ = true; /* anonymous peers have rights */
  std::string rules_, tokens_, token_;
  TpsAccess *access_ = nullptr;
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
};

/* A client of the Chunks service. Returns codes of errors; 0 = none. */
class ChunkClient
{
public:
  explicit ChunkClient (const gchar *address)
  {
    TpsClientOptions options = {};

    options.address = address;
    client_ = tps_client_new (&options, nullptr);
  }
  ~ChunkClient ()
  {
    tps_client_free (client_);
  }

  int
  begin (const std::string &name, gint64 n_bytes, gint32 count)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), n_bytes, count, 0 };
    gint32 n_received;

    return call ("begin_transfer", thriftps::WriteArgumentsOf<tps_begin_transfer_rpc>, &arguments,
                 thriftps::ReadResultOf<tps_begin_transfer_rpc>, &n_received);
  }

  int
  put (const std::string &name, gint32 index, gint32 count, const std::string &data)
  {
    struct iovec piece = { const_cast<char *> (data.data ()), data.size () };
    TpsChunk chunk = { const_cast<gchar *> (name.c_str ()),
                       index,
                       count,
                       static_cast<gint32> (tps_crc32c (0, data.data (), data.size ())),
                       { nullptr, &piece, 1 } };

    return call ("put_chunk", thriftps::WriteArgumentsOf<tps_put_chunk_rpc>, &chunk, nullptr,
                 nullptr);
  }

  /* Returns the serialised reply. */
  std::string
  run (const std::string &name)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), 0, 0, 0 };
    g_auto (TpsLargeAnswer) answer = {};
    gsize n_bytes;

    if (call ("run_transfer", thriftps::WriteArgumentsOf<tps_run_transfer_rpc>, &arguments,
              thriftps::ReadResultOf<tps_run_transfer_rpc>, &answer)
        != 0)
      return message;
    auto data = static_cast<const char *> (g_bytes_get_data (answer.message.received, &n_bytes));
    return std::string (data, n_bytes);
  }

  /* As run(), but does not wait. */
  void
  begin_run (const std::string &name)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), 0, 0, 0 };

    tps_client_call (
        client_, "Chunks", "run_transfer", thriftps::WriteArgumentsOf<tps_run_transfer_rpc>,
        &arguments, deadline (), [] (gpointer, TpsReader *, TpsWireType, const GError *) {},
        nullptr);
  }

  std::string message; /* of the last error */

private:
  int
  call (const char *method, TpsWriteArguments write, gconstpointer arguments, TpsReadResult read,
        gpointer result)
  {
    g_autoptr (GError) error = nullptr;

    tps_client_call_sync (client_, "Chunks", method, write, arguments, deadline (), read, result,
                          &error);
    message = error != nullptr ? error->message : "";
    return error != nullptr ? error->code : 0;
  }

  TpsClient *client_;
};

/* Ends the message and returns its bytes, as they stand in a transfer. */
std::string
end_transferred (TpsWriter *out)
{
  std::string bytes;
  guint n_pieces;

  EXPECT_TRUE (tps_writer_message_end_transferred (out, nullptr));
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, nullptr);
  for (guint i = 0; i < n_pieces; i++)
    bytes.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
  return bytes;
}

/* Returns a call of list_tables with an unknown argument of `n_bytes`, as it stands in a
 * transfer. */
std::string
long_call (gsize n_bytes)
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);
  std::string argument (n_bytes, 'x');

  tps_writer_message_begin (out, "EmbeddingTable:list_tables", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 9, TPS_WIRE_BINARY);
  tps_writer_binary (out, argument.data (), argument.size ());
  tps_writer_struct_end (out);
  return end_transferred (out);
}

/* Returns a call that waits for five minutes, as it stands in a transfer. */
std::string
waiting_call ()
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);

  tps_writer_message_begin (out, "Rendezvous:get", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_binary (out, "missing", 7);
  tps_writer_field (out, 2, TPS_WIRE_I32);
  tps_writer_i32 (out, 300000);
  tps_writer_struct_end (out);
  return end_transferred (out);
}

/* The crowd runs calls that wait in all transfers that it may have. */
TEST_F (TenantsTest, CallsThatWaitInTransfersLeavePlacesToOthers)
{
  constexpr int n_connections = 6, n_transfers = 256;
  std::vector<std::unique_ptr<ChunkClient>> crowd;
  std::string waits = waiting_call (), call = long_call (100);

  start ("{}");
  ChunkClient quiet (tps_server_get_addresses (server_)[1]);
  for (int i = 0; i < n_connections; i++)
    crowd.emplace_back (new ChunkClient (tps_server_get_addresses (server_)[0]));
  for (int i = 0; i < n_transfers; i++)
    {
      ChunkClient &client = *crowd[(size_t) i % n_connections];
      std::string name = "crowd" + std::to_string (i);

      int code = client.begin (name, (gint64) waits.size (), 1);
      ASSERT_EQ (code, i < n_transfers / 2 ? 0 : TPS_ERROR_RESOURCE_EXHAUSTED) << client.message;
      if (code != 0)
        continue;
      ASSERT_EQ (client.put (name, 0, 1, waits), 0) << client.message;
      client.begin_run (name);
    }
  /* The calls of a connection are read in their order. */
  for (auto &client : crowd)
    EXPECT_EQ (client->put ("unknown", 0, 1, waits), TPS_ERROR_NOT_FOUND);
  ASSERT_EQ (quiet.begin ("quiet", (gint64) call.size (), 1), 0) << quiet.message;
  ASSERT_EQ (quiet.put ("quiet", 0, 1, call), 0) << quiet.message;
  std::string reply = quiet.run ("quiet");
  EXPECT_NE (reply.find (std::string ("list_tables\0\0\0\1\x0f", 16)), std::string::npos) << reply;
}

/* The crowd announces transfers as large as the server takes, and tensors of this size in them, but
 * sends no more than their first bytes. It must not keep others from the memory of transfers. */
TEST_F (TenantsTest, AnnouncedTransfersTakeNoMemory)
{
  limits_.max_memory_bytes = (gsize) 320 << 20;
  start ("{}");
  gint64 n_bytes = (gint64) (tps_budget_get_max (plugin_->budgets->transfers) / 5 * 4);
  std::string first = long_call ((gsize) n_bytes - 200).substr (0, 100);
  gint32 n_chunks = (gint32) ((n_bytes + 99) / 100);
  ChunkClient crowd (tps_server_get_addresses (server_)[0]);
  ChunkClient quiet (tps_server_get_addresses (server_)[1]);

  for (int i = 0; i < 300; i++)
    if (crowd.begin ("crowd" + std::to_string (i), n_bytes, n_chunks) == 0)
      crowd.put ("crowd" + std::to_string (i), 0, n_chunks, first);
  std::string call = long_call ((gsize) n_bytes / 2);
  n_chunks = (gint32) ((call.size () + kChunkBytes - 1) / kChunkBytes);
  ASSERT_EQ (quiet.begin ("quiet", (gint64) call.size (), n_chunks), 0);
  for (gint32 i = 0; i < n_chunks; i++)
    ASSERT_EQ (quiet.put ("quiet", i, n_chunks, call.substr ((gsize) i * kChunkBytes, kChunkBytes)),
               0)
        << i << quiet.message;
  std::string reply = quiet.run ("quiet");
  EXPECT_NE (reply.find (std::string ("list_tables\0\0\0\1\x0f", 16)), std::string::npos) << reply;
}

/* A push of one row must not wait for all pushes that another tenant has sent to the same table.
 * The crowd always has 64 pushes in flight. Without turns, they would all end before the push of
 * the quiet tenant. The test counts them, because times depend on the machine; the least count of
 * several pushes counts, because a thread of the test may be slow. */
TEST_F (TenantsTest, TenantsTakeTurnsInTheQueueOfATable)
{
  constexpr int n_connections = 8, n_senders = 64;
  std::vector<std::unique_ptr<TpsRemoteTables, void (*) (TpsRemoteTables *)>> crowd;
  std::vector<std::thread> threads;
  std::atomic<bool> is_over { false };
  std::atomic<int> n_done { 0 };
  int n_least = n_senders;

  start ("{}");
  g_autoptr (TpsRemoteTables) quiet = connect (true);
  ASSERT_EQ (create (quiet, "users", kManyRows), "");
  for (int i = 0; i < n_connections; i++)
    {
      crowd.emplace_back (connect (false), tps_remote_tables_free);
      ASSERT_TRUE (tps_remote_tables_discover (crowd[(size_t) i].get (), deadline (), nullptr));
    }
  for (int i = 0; i < n_senders; i++)
    threads.emplace_back ([&, tables = crowd[(size_t) i % n_connections].get ()] {
      while (!is_over)
        {
          EXPECT_EQ (push (tables, "users", kManyRows, deadline ()), "");
          n_done++;
        }
    });
  while (n_done < n_senders)
    std::this_thread::yield ();
  for (int i = 0; i < 10; i++)
    {
      int n_before = n_done;

      EXPECT_EQ (push (quiet, "users", 1, deadline ()), "");
      n_least = std::min (n_least, n_done - n_before);
    }
  is_over = true;
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_LT (n_least, n_senders / 4);
}

/* Peers without rights send the beginnings of calls, and then nothing. The bodies of these calls
 * would fill the budget of pending calls, but must not keep others from it. */
TEST_F (TenantsTest, PeersWithoutRightsHaveASmallBudget)
{
  constexpr gsize n_pending = (gsize) 64 << 20;
  std::vector<std::unique_ptr<RawClient>> strangers;

  is_open_ = false;
  limits_.max_pending_bytes = n_pending;
  start ("{}");
  TpsBudget *budget = plugin_->budgets->strangers;
  g_autoptr (TpsRemoteTables) quiet = connect (true);
  ASSERT_EQ (create (quiet, "users", kManyRows), "");
  for (gsize n_bytes : { (gsize) 8 << 20, (gsize) 512 << 10 })
    for (int i = 0; i < 16; i++)
      {
        std::string call = MessageBytes ({}, "EmbeddingTable:list_tables", 1,
                                         [n_bytes] (TpsWriter *out) {
                                           std::string bytes (n_bytes, 'x');
                                           tps_writer_field (out, 9, TPS_WIRE_BINARY);
                                           tps_writer_binary (out, bytes.data (), bytes.size ());
                                         });
        strangers.emplace_back (new RawClient (tps_server_get_addresses (server_)[0]));
        ASSERT_TRUE (strangers.back ()->SendBytes (call.substr (0, n_bytes / 2)));
      }
  /* No large body has been accepted, and at most eight small ones. */
  while (tps_budget_get_n_refused (budget) < 24)
    std::this_thread::yield ();
  EXPECT_LE (tps_budget_get_held (budget), n_pending / 16);
  for (int i = 0; i < 20; i++)
    EXPECT_EQ (push (quiet, "users", kManyRows, deadline ()), "");
}

/* Peers that hold the whole budget of strangers must not keep others from authenticating. */
TEST_F (TenantsTest, AClientCanAuthenticateWhileStrangersHoldTheirBudget)
{
  is_open_ = false;
  limits_.max_pending_bytes = (gsize) 64 << 20;
  start ("{}");
  TpsBudget *budget = plugin_->budgets->strangers;
  RawClient client (tps_server_get_addresses (server_)[0]);

  ASSERT_TRUE (tps_budget_charge (budget, tps_budget_get_max (budget), nullptr));
  thriftps_test::Message reply = client.Call ("Session:authenticate", [this] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, token_.c_str ());
  });
  tps_budget_release (budget, tps_budget_get_max (budget));
  EXPECT_EQ (ErrorCode (reply), 0) << thriftps_test::ErrorText (reply);
  EXPECT_EQ (ErrorCode (client.Call ("EmbeddingTable:list_tables")), 0);
}

/* The first large call of a client that sends its token in headers has the limit of strangers, but
 * the second one does not. */
TEST_F (TenantsTest, ALargeFirstCallWithATokenInItsHeaderMayBeRepeated)
{
  is_open_ = false;
  limits_.max_pending_bytes = (gsize) 64 << 20;
  start ("{}");
  RawClient client (tps_server_get_addresses (server_)[0]);
  std::string bytes ((size_t) 8 << 20, 'x');
  auto call = [&] {
    TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
    guint n_pieces = 0;
    std::string message;

    tps_writer_set_header (out, 1);
    tps_writer_add_header (out, "authorization", ("Bearer " + token_).c_str ());
    tps_writer_message_begin (out, "EmbeddingTable:list_tables", TPS_MESSAGE_CALL, 1);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 9, TPS_WIRE_BINARY);
    tps_writer_binary (out, bytes.data (), bytes.size ());
    tps_writer_struct_end (out);
    EXPECT_TRUE (tps_writer_message_end (out, nullptr));
    const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, nullptr);
    for (guint i = 0; i < n_pieces; i++)
      message.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
    tps_writer_free (out);
    EXPECT_TRUE (client.SendBytes (message));
    return client.Receive ();
  };

  thriftps_test::Message reply = call ();
  EXPECT_NE (ErrorCode (reply), 0);
  EXPECT_GE (thriftps_test::RetryAfterMs (reply), 0) << thriftps_test::ErrorText (reply);
  EXPECT_EQ (ErrorCode (call ()), 0);
}

/* While most calls of the crowd are refused, every call of the other tenant must be served. */
TEST_F (TenantsTest, ACrowdThatIsRefusedTakesNothingFromOthers)
{
  constexpr int n_crowd = 4, n_lookups = 200;
  std::atomic<bool> is_over { false };
  std::atomic<int> n_refused { 0 };
  std::vector<std::thread> threads;

  start (R"({ "crowd": { "calls_per_s": 1, "calls_burst": 40 } })");
  g_autoptr (TpsRemoteTables) quiet = connect (true);
  ASSERT_EQ (create (quiet, "users"), "");
  for (int i = 0; i < n_crowd; i++)
    threads.emplace_back ([&] {
      g_autoptr (TpsRemoteTables) crowd = connect (false);

      while (!is_over && !tps_remote_tables_discover (crowd, deadline (), nullptr))
        ;
      /* The deadline is so close that there is no time for a retry. */
      while (!is_over)
        n_refused += !look_up (crowd, "users", 1, deadline () - 119999000000).empty ();
    });
  while (n_refused < 100)
    std::this_thread::yield ();
  for (int i = 0; i < n_lookups; i++)
    ASSERT_EQ (look_up (quiet, "users", 10, deadline ()), "") << i;
  is_over = true;
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_GT (status ("crowd").n_refused[TPS_QUOTA_CALLS], 0u);
  for (guint64 n : status ("quiet").n_refused)
    EXPECT_EQ (n, 0u);
}

/* The C client must wait for the time that the refusal names, and then retry. */
TEST_F (TenantsTest, ARefusedClientRetriesAfterTheGivenTime)
{
  start (R"({ "quiet": { "calls_per_s": 5, "calls_burst": 5, "rows_per_s": 100000 } })");
  g_autoptr (TpsRemoteTables) quiet = connect (true);

  ASSERT_EQ (create (quiet, "users"), "");
  /* The loop makes many lookups, because on a busy machine some may be too slow to be refused. */
  for (int i = 0; i < 1000 && status ("quiet").n_refused[TPS_QUOTA_CALLS] == 0; i++)
    ASSERT_EQ (look_up (quiet, "users", 10, deadline ()), "");
  EXPECT_GT (status ("quiet").n_refused[TPS_QUOTA_CALLS], 0u);
  EXPECT_GT (status ("quiet").throttled_ms, 0u);
}

TEST_F (TenantsTest, RowsAreLimited)
{
  start (R"({ "quiet": { "rows_per_s": 1, "rows_burst": 1000 } })");
  g_autoptr (TpsRemoteTables) quiet = connect (true), crowd = connect (false);

  ASSERT_EQ (create (quiet, "users"), "");
  ASSERT_TRUE (tps_remote_tables_discover (crowd, deadline (), nullptr));
  EXPECT_EQ (look_up (quiet, "users", 900, deadline ()), "");
  std::string refused = look_up (quiet, "users", 900, deadline ());
  EXPECT_NE (refused.find ("rows_per_s"), std::string::npos) << refused;
  EXPECT_EQ (look_up (crowd, "users", 900, deadline ()), "");
  EXPECT_EQ (look_up (crowd, "users", 900, deadline ()), "");
}

constexpr gint32 kExhausted = 7;

/* This must also hold for refusals by a handler, as at a limit on rows. */
TEST_F (TenantsTest, APeerThatIgnoresRefusedRowsIsReadSlowly)
{
  constexpr int n_calls = 4;
  gchar table[] = "users";
  TpsLookupRowsArguments arguments = {};
  std::string calls;

  start (R"({ "crowd": { "rows_per_s": 1, "rows_burst": 1 } })");
  g_autoptr (TpsRemoteTables) quiet = connect (true);
  ASSERT_EQ (create (quiet, table), "");
  RawClient crowd (tps_server_get_addresses (server_)[0]);
  arguments.table = table;
  tps_tensor_init_1d (&arguments.indices, TPS_DTYPE_INT64, 10);
  std::fill_n (static_cast<gint64 *> (tps_tensor_data (&arguments.indices)), 10, 7);
  for (int call = 0; call <= n_calls; call++)
    calls += MessageBytes ({}, "EmbeddingTable:lookup_rows", call, [&] (TpsWriter *out) {
      tps_rpc_write_arguments (&tps_lookup_rows_rpc, out, &arguments);
    });
  tps_tensor_clear (&arguments.indices);
  gint64 begin_us = g_get_monotonic_time ();
  ASSERT_TRUE (crowd.SendBytes (calls));
  int n_refused = 0;
  for (int call = 0; call <= n_calls; call++) // replies may overtake each other
    if (ErrorCode (crowd.Receive ()) == kExhausted)
      {
        EXPECT_GE (g_get_monotonic_time () - begin_us, n_refused * 100000);
        n_refused++;
      }
  EXPECT_EQ (n_refused, n_calls) << "the first call had the whole burst";
}

/* Workers read long arguments, so they must also refuse them. */
TEST_F (TenantsTest, RowsAreRefusedByWorkersToo)
{
  const gint64 id = 7, offset = 0;
  TpsBagQuery query = {};
  std::string call;

  start (R"({ "crowd": { "rows_per_s": 1, "rows_burst": 1 } })");
  g_autoptr (TpsRemoteTables) quiet = connect (true);
  ASSERT_EQ (create (quiet, "users"), "");
  query.table = "users";
  query.indices = { { TPS_DTYPE_INT64, 1, { 1 } }, &id };
  query.offsets = { { TPS_DTYPE_INT64, 1, { 1 } }, &offset };
  query.pooling = TPS_POOLING_SUM;
  std::vector<TpsBagQuery> queries (3000, query);
  call = MessageBytes ({}, "EmbeddingTable:lookup_bags", 1, [&] (TpsWriter *out) {
    TpsLookupBagsArguments arguments = { (guint) queries.size (), queries.data () };
    tps_rpc_write_arguments (&tps_lookup_bags_rpc, out, &arguments);
  });
  ASSERT_GT (call.size (), 65536u);
  RawClient crowd (tps_server_get_addresses (server_)[0]);
  ASSERT_TRUE (crowd.SendBytes (call));
  EXPECT_EQ (ErrorCode (crowd.Receive ()), 0);
  for (int i = 0; i < 3; i++)
    {
      ASSERT_TRUE (crowd.SendBytes (call));
      EXPECT_EQ (ErrorCode (crowd.Receive ()), kExhausted);
    }
  ASSERT_TRUE (RawClient (tps_server_get_addresses (server_)[0]).SendBytes (call));
}

/* This must also hold after a restart with a limit below the current use. */
TEST_F (TenantsTest, TablesCountForTheirCreator)
{
  g_autofree gchar *data = g_dir_make_tmp ("tps-tenants-XXXXXX", nullptr);
  gsize n_bytes;

  start (R"({ "quiet": { "table_bytes": 100000 } })", data);
  {
    g_autoptr (TpsRemoteTables) quiet = connect (true), crowd = connect (false);

    EXPECT_EQ (create (quiet, "first"), "");
    n_bytes = status ("quiet").n_table_bytes;
    EXPECT_GT (n_bytes, 16000u);
    std::string refused = create (quiet, "large", 10000);
    EXPECT_NE (refused.find ("tables of tenant quiet"), std::string::npos) << refused;
    EXPECT_EQ (status ("quiet").n_refused[TPS_QUOTA_TABLE_BYTES], 1u);
    EXPECT_EQ (create (crowd, "large", 10000), "");
    EXPECT_EQ (status ("quiet").n_table_bytes, n_bytes);
  }
  stop ();
  start (R"({ "quiet": { "table_bytes": 10000 } })", data);
  {
    g_autoptr (TpsRemoteTables) quiet = connect (true);

    EXPECT_EQ (status ("quiet").n_table_bytes, n_bytes);
    ASSERT_TRUE (tps_remote_tables_discover (quiet, deadline (), nullptr));
    EXPECT_EQ (look_up (quiet, "first", 1, deadline ()), "");
    EXPECT_NE (create (quiet, "second", 1), "");
    EXPECT_TRUE (tps_remote_tables_drop (quiet, "first", deadline (), nullptr));
    EXPECT_EQ (status ("quiet").n_table_bytes, 0u);
    EXPECT_EQ (create (quiet, "second", 1), "");
  }
  stop ();
  EXPECT_EQ (system (("rm -r " + std::string (data)).c_str ()), 0);
}

TEST_F (TenantsTest, ReloadedLimitsHoldForConnectionsThatAreOpen)
{
  g_autoptr (GError) error = nullptr;

  start ("{}");
  g_autoptr (TpsRemoteTables) quiet = connect (true);
  ASSERT_EQ (create (quiet, "users"), "");
  EXPECT_EQ (look_up (quiet, "users", 500, deadline ()), "");
  write_rules (R"({ "*": { "rows_per_s": 1, "rows_burst": 500 } })");
  ASSERT_TRUE (tps_access_reload (access_, &error)) << error->message;
  EXPECT_EQ (look_up (quiet, "users", 500, deadline ()), "");
  EXPECT_NE (look_up (quiet, "users", 500, deadline ()), "");
  write_rules (R"({ "*": { "rows_per_s": "many" } })");
  EXPECT_FALSE (tps_access_reload (access_, &error));
  EXPECT_NE (strstr (error->message, "tenants.*.rows_per_s"), nullptr) << error->message;
  EXPECT_NE (look_up (quiet, "users", 500, deadline ()), "") << "the old limits hold";
  write_rules ("{}");
  ASSERT_TRUE (tps_access_reload (access_, nullptr));
  EXPECT_EQ (look_up (quiet, "users", 500, deadline ()), "");
}

} // namespace
