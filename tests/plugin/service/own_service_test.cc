// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A program in C++ that uses only the public headers: a service with descriptors of its own, and a
// client that calls it.

#include <gtest/gtest.h>
#include <thriftps/client.h>
#include <thriftps/plugin.h>
#include <unistd.h>

#include <cstddef>
#include <string>

namespace thriftps_test {
namespace {

// ---- descriptors --------------------------------------------------------------------------------

struct Point
{
  gchar *name;
  gint64 x;
  gboolean has_x;
};

enum Color
{
  RED = 1,
  BLUE = 2
};

struct Shapes
{
  Point first;
  guint n_points;
  Point *points;
  gchar **tags;
  guint n_tensors;
  TpsTensor *tensors;
  GBytes *bytes;
  GHashTable *texts;
  gboolean is_last;
  gint32 n;
  gdouble weight;
  gboolean has_weight;
  Color color;
};

const TpsField point_fields[] = {
  TPS_FIELD_WITH (Point, name, 1, TPS_FIELD_REQUIRED, tps_kind_string, nullptr),
  TPS_FIELD_HAS (Point, x, 2, tps_kind_i64, nullptr), TPS_FIELD_END
};
const TpsStruct point_struct = TPS_STRUCT ("Point", point_fields);
const TpsList point_list = TPS_LIST_OF (Point, tps_kind_struct, &point_struct);
const TpsList tensor_list = TPS_LIST_OF (TpsTensor, tps_kind_struct, &tps_tensor_struct);
const TpsList tag_list = TPS_LIST_OF_STRINGS;
const TpsTextsLimits few_texts = { 2, 100 };
const TpsLimit not_negative = { 0, ">= 0" };
const TpsEnumValue color_values[] = { { "RED", RED }, { "BLUE", BLUE }, { nullptr, 0 } };
const TpsEnum color_enum = { "Color", color_values };

const TpsField shape_fields[] = {
  TPS_FIELD_WITH (Shapes, first, 1, TPS_FIELD_DEFAULT, tps_kind_struct, &point_struct),
  TPS_FIELD_WITH (Shapes, n_points, 2, TPS_FIELD_DEFAULT, tps_kind_list, &point_list),
  TPS_FIELD_WITH (Shapes, tags, 3, TPS_FIELD_OPTIONAL, tps_kind_list, &tag_list),
  TPS_FIELD_WITH (Shapes, n_tensors, 4, TPS_FIELD_DEFAULT, tps_kind_list, &tensor_list),
  TPS_FIELD_WITH (Shapes, bytes, 5, TPS_FIELD_OPTIONAL, tps_kind_bytes, nullptr),
  TPS_FIELD_WITH (Shapes, texts, 6, TPS_FIELD_OPTIONAL, tps_kind_texts, &few_texts),
  TPS_FIELD_WITH (Shapes, is_last, 7, TPS_FIELD_DEFAULT, tps_kind_bool, nullptr),
  TPS_FIELD_WITH (Shapes, n, 8, TPS_FIELD_DEFAULT, tps_kind_i32, &not_negative),
  TPS_FIELD_HAS (Shapes, weight, 9, tps_kind_double, nullptr),
  TPS_FIELD_WITH (Shapes, color, 10, TPS_FIELD_REQUIRED, tps_kind_enum, &color_enum),
  TPS_FIELD_END
};
const TpsStruct shapes_struct = TPS_STRUCT ("Shapes", shape_fields);
const TpsField shapes_result = TPS_RESULT (tps_kind_struct, &shapes_struct);

void
ClearShapes (gpointer data)
{
  Shapes *shapes = static_cast<Shapes *> (data);

  g_free (shapes->first.name);
  for (guint i = 0; i < shapes->n_points; i++)
    g_free (shapes->points[i].name);
  g_free (shapes->points);
  g_strfreev (shapes->tags);
  for (guint i = 0; i < shapes->n_tensors; i++)
    tps_tensor_clear (&shapes->tensors[i]);
  g_free (shapes->tensors);
  g_clear_pointer (&shapes->bytes, g_bytes_unref);
  g_clear_pointer (&shapes->texts, g_hash_table_unref);
}

// ---- the service: echo() returns its arguments, keep() keeps a tensor ---------------------------

const TpsField keep_arguments[] = {
  { "tensor", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &tps_tensor_struct, 0, 0 }, TPS_FIELD_END
};
const TpsRpc echo_rpc = TPS_RPC_CALLED ("Own", "echo", shape_fields, &shapes_result, Shapes,
                                        ClearShapes);
const TpsRpc keep_rpc = TPS_RPC ("Own", "keep", keep_arguments, nullptr);

void
HandleEcho (TpsCall *call, gpointer)
{
  Shapes shapes = {};
  g_autoptr (GError) error = nullptr;

  if (tps_call_read_arguments (call, &shapes, &error))
    tps_call_reply_value (call, &shapes);
  else
    tps_call_reply_error (call, error);
  ClearShapes (&shapes);
}

void
HandleKeep (TpsCall *call, gpointer kept)
{
  g_autoptr (GError) error = nullptr;

  tps_call_read_arguments (call, kept, &error);
  tps_call_reply_done (call, error);
}

const TpsMethod methods[] = {
  { TPS_RIGHT_READ, &echo_rpc, HandleEcho, TPS_METHOD_ON_WORKER, FALSE, FALSE },
  { TPS_RIGHT_PUSH, &keep_rpc, HandleKeep, TPS_METHOD_INLINE, FALSE, FALSE },
  TPS_METHODS_END,
};

gint64
Deadline ()
{
  return (g_get_monotonic_time () + 60 * G_USEC_PER_SEC) * 1000;
}

class OwnService : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsService service = TPS_INIT (TpsService);
    TpsPluginOptions parts = TPS_INIT (TpsPluginOptions);
    TpsClientOptions options = TPS_INIT (TpsClientOptions);
    g_autofree gchar *folder = g_dir_make_tmp ("own-XXXXXX", nullptr);

    folder_ = folder;
    address_ = "unix:" + folder_ + "/s";
    service.name = "Own";
    service.methods = methods;
    service.object = &kept_;
    parts.n_trainers = 1;
    plugin_ = tps_plugin_new (&parts, nullptr);
    tps_plugin_add_service (plugin_, &service);
    server_ = tps_plugin_new_server (plugin_, nullptr);
    ASSERT_TRUE (tps_server_listen (server_, address_.c_str (), nullptr));
    ASSERT_TRUE (tps_server_start (server_, nullptr));
    options.address = address_.c_str ();
    client_ = tps_client_new (&options, nullptr);
  }

  void
  TearDown () override
  {
    tps_client_free (client_);
    tps_server_stop (server_);
    g_object_unref (server_);
    tps_plugin_free (plugin_);
    tps_tensor_clear (&kept_);
    unlink ((folder_ + "/s").c_str ());
    rmdir (folder_.c_str ());
  }

  gboolean
  Call (const TpsRpc *rpc, gconstpointer arguments, gpointer result, GError **error)
  {
    return tps_rpc_call_sync (client_, rpc, arguments, TPS_RETRY_NEVER, Deadline (), result, error);
  }

  std::string folder_, address_;
  TpsTensor kept_ = {};
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  TpsClient *client_ = nullptr;
};

TEST_F (OwnService, TransfersEveryKindOfValue)
{
  std::string first = "first", second = "second", third = "third", tag = "tag";
  Point points[] = { { &second[0], 0, TRUE }, { &third[0], 7, FALSE } };
  gchar *tags[] = { &tag[0], nullptr };
  g_autoptr (GBytes) bytes = g_bytes_new ("bytes", 5);
  g_autoptr (GHashTable) texts = g_hash_table_new (g_str_hash, g_str_equal);
  g_auto (TpsTensor) tensor = {};
  Shapes sent = {}, received = {};

  tps_tensor_init_1d (&tensor, TPS_DTYPE_FLOAT32, 2);
  static_cast<gfloat *> (tps_tensor_data (&tensor))[0] = 0.25f;
  static_cast<gfloat *> (tps_tensor_data (&tensor))[1] = -3;
  g_hash_table_insert (texts, &tag[0], &first[0]);
  sent.first = { &first[0], -1, TRUE };
  sent.n_points = 2;
  sent.points = points;
  sent.tags = tags;
  sent.n_tensors = 1;
  sent.tensors = &tensor;
  sent.bytes = bytes;
  sent.texts = texts;
  sent.is_last = TRUE;
  sent.n = 9;
  sent.has_weight = TRUE;
  sent.color = BLUE;
  ASSERT_TRUE (Call (&echo_rpc, &sent, &received, nullptr));

  EXPECT_STREQ (received.first.name, "first");
  EXPECT_EQ (received.first.x, -1);
  ASSERT_EQ (received.n_points, 2u);
  EXPECT_STREQ (received.points[0].name, "second");
  EXPECT_TRUE (received.points[0].has_x);
  EXPECT_STREQ (received.points[1].name, "third");
  EXPECT_FALSE (received.points[1].has_x);
  EXPECT_EQ (received.points[1].x, 0);
  ASSERT_NE (received.tags, nullptr);
  EXPECT_STREQ (received.tags[0], "tag");
  EXPECT_EQ (received.tags[1], nullptr);
  ASSERT_EQ (received.n_tensors, 1u);
  EXPECT_TRUE (tps_shape_equal (&received.tensors[0].shape, &tensor.shape));
  EXPECT_EQ (static_cast<gfloat *> (tps_tensor_data (&received.tensors[0]))[1], -3);
  EXPECT_TRUE (g_bytes_equal (received.bytes, bytes));
  EXPECT_STREQ (static_cast<gchar *> (g_hash_table_lookup (received.texts, "tag")), "first");
  EXPECT_TRUE (received.is_last);
  EXPECT_EQ (received.n, 9);
  EXPECT_TRUE (received.has_weight);
  EXPECT_EQ (received.weight, 0);
  EXPECT_EQ (received.color, BLUE);
  ClearShapes (&received);
}

TEST_F (OwnService, OptionalFieldsStayUnset)
{
  std::string name = "first";
  Shapes sent = {}, received = {};

  sent.first.name = &name[0];
  sent.color = RED;
  ASSERT_TRUE (Call (&echo_rpc, &sent, &received, nullptr));
  EXPECT_FALSE (received.first.has_x);
  EXPECT_EQ (received.n_points, 0u);
  EXPECT_EQ (received.tags, nullptr);
  EXPECT_EQ (received.n_tensors, 0u);
  EXPECT_EQ (received.bytes, nullptr);
  EXPECT_EQ (received.texts, nullptr);
  EXPECT_FALSE (received.has_weight);
  ClearShapes (&received);
}

// A service without `borrows_shared` may keep tensors: the client gets its memory back with the
// reply, and its later changes are not seen.
TEST_F (OwnService, KeptTensorsInSharedMemoryAreCopies)
{
  const gint64 n = 1 << 18;
  TpsTensor tensor = {};
  TpsShape shape = { TPS_DTYPE_FLOAT32, 1, { n } };
  g_autoptr (TpsBuffer) memory = nullptr;

  tps_tensor_init_zeroed (&tensor, &shape);
  for (gint64 end = Deadline (); memory == nullptr && g_get_monotonic_time () * 1000 < end;)
    {
      ASSERT_TRUE (Call (&keep_rpc, &tensor, nullptr, nullptr)); // connects, and shares memory
      tps_tensor_clear (&kept_);
      memory = tps_client_get_send_memory (client_, tps_shape_n_bytes (&shape), nullptr);
    }
  ASSERT_NE (memory, nullptr);
  tps_tensor_clear (&tensor);
  tps_tensor_init_take (&tensor, &shape, tps_buffer_ref (memory), 0);
  static_cast<gfloat *> (tps_tensor_data (&tensor))[n - 1] = 5;
  ASSERT_TRUE (Call (&keep_rpc, &tensor, nullptr, nullptr));
  static_cast<gfloat *> (tps_tensor_data (&tensor))[n - 1] = 6;
  tps_tensor_clear (&tensor);
  ASSERT_EQ (kept_.shape.dims[0], n);
  EXPECT_EQ (static_cast<gfloat *> (tps_tensor_data (&kept_))[n - 1], 5);
}

// ---- structs with a size ------------------------------------------------------------------------

TEST (Sizes, FieldsBeyondTheSizeAreNotRead)
{
  TpsServerOptions options = TPS_INIT (TpsServerOptions);

  options.size = offsetof (TpsServerOptions, default_service);
  options.default_service = "Unknown"; // would fail the start
  TpsServer *server = tps_server_new (&options);
  EXPECT_TRUE (tps_server_start (server, nullptr));
  g_object_unref (server);
}

TEST (SizesDeathTest, OfLaterVersionsAreRefused)
{
  TpsPluginOptions options = TPS_INIT (TpsPluginOptions);

  options.size += sizeof (gpointer);
  EXPECT_DEATH (tps_plugin_new (&options, nullptr), "headers of a later version than " TPS_VERSION);
}

} // namespace
} // namespace thriftps_test
