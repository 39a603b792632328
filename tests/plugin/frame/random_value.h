/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random Thrift values, which are generated, written with a writer, read with a reader, and
 * compared. */

#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "plugin/frame/message.h"
#include "plugin/frame/writer.h"

namespace thriftps {

/* A generator of random numbers, with the number of values that the current tree may still add. */
class Random : public std::mt19937_64
{
public:
  explicit Random (guint64 seed) : std::mt19937_64 (seed)
  {
  }

  guint n_values_left = 0;
};

inline guint
pick (Random &random, guint n)
{
  return static_cast<guint> (random () % n);
}

struct Value
{
  TpsWireType type = TPS_WIRE_BOOL;
  gint64 number = 0;         /* BOOL, BYTE, I16, I32, I64; the bits of a DOUBLE */
  std::string bytes;         /* BINARY */
  std::vector<gint16> ids;   /* STRUCT */
  std::vector<Value> values; /* STRUCT: fields; LIST, SET: elements; MAP: key, value, key, … */
  TpsWireType types[2] = { TPS_WIRE_BOOL, TPS_WIRE_BOOL }; /* LIST, SET: [0]; MAP: key, value */

  bool operator== (const Value &other) const;
};

inline bool
Value::operator== (const Value &other) const
{
  bool same_types = values.empty () || type == TPS_WIRE_STRUCT || types[0] == other.types[0];

  if (type == TPS_WIRE_MAP && !values.empty ())
    same_types = same_types && types[1] == other.types[1];
  return type == other.type && number == other.number && bytes == other.bytes && ids == other.ids
         && values == other.values && same_types;
}

inline gint64
random_number (Random &random, TpsWireType type)
{
  gint64 number = static_cast<gint64> (random ()) >> pick (random, 64);

  switch (type)
    {
    case TPS_WIRE_BOOL:
      return number & 1;
    case TPS_WIRE_BYTE:
      return static_cast<gint8> (number);
    case TPS_WIRE_I16:
      return static_cast<gint16> (number);
    case TPS_WIRE_I32:
      return static_cast<gint32> (number);
    default:
      return number;
    }
}

inline TpsWireType
random_type (Random &random, guint depth)
{
  static const TpsWireType types[] = { TPS_WIRE_BOOL,   TPS_WIRE_BYTE,   TPS_WIRE_DOUBLE,
                                       TPS_WIRE_I16,    TPS_WIRE_I32,    TPS_WIRE_I64,
                                       TPS_WIRE_BINARY, TPS_WIRE_STRUCT, TPS_WIRE_MAP,
                                       TPS_WIRE_SET,    TPS_WIRE_LIST };

  return types[pick (random, depth > 5 || random.n_values_left == 0 ? 7 : 11)];
}

inline std::string
random_bytes (Random &random)
{
  static const gsize sizes[] = { 0, 1, 3, 20, 127, 128, 4095, 4096, 4097, 20000 };
  std::string bytes (pick (random, 8) == 0 ? sizes[pick (random, 10)] : pick (random, 12), '\0');

  for (char &byte : bytes)
    byte = static_cast<char> (random ());
  return bytes;
}

/* Returns a random value. `depth` is the number of structs and containers around it. */
inline Value random_value (Random &random, TpsWireType type, guint depth);

inline void
random_fields (Random &random, Value &value, guint depth)
{
  gint id = static_cast<gint> (pick (random, 3)) - 1;

  for (guint i = pick (random, 6); i > 0 && random.n_values_left > 0; i--)
    {
      value.ids.push_back (static_cast<gint16> (id));
      value.values.push_back (random_value (random, random_type (random, depth), depth + 1));
      if (pick (random, 4) == 0)
        id += static_cast<gint> (pick (random, pick (random, 2) == 0 ? 20 : 3000));
      id++;
    }
}

inline Value
random_value (Random &random, TpsWireType type, guint depth)
{
  Value value;

  value.type = type;
  if (random.n_values_left > 0)
    random.n_values_left--;
  switch (type)
    {
    case TPS_WIRE_BINARY:
      value.bytes = random_bytes (random);
      break;
    case TPS_WIRE_STRUCT:
      random_fields (random, value, depth);
      break;
    case TPS_WIRE_LIST:
    case TPS_WIRE_SET:
    case TPS_WIRE_MAP:
      value.types[0] = random_type (random, depth);
      value.types[1] = random_type (random, depth);
      for (guint i = pick (random, 4) == 0 ? pick (random, 40) : pick (random, 4);
           i > 0 && random.n_values_left > 0; i--)
        {
          value.values.push_back (random_value (random, value.types[0], depth + 1));
          if (type == TPS_WIRE_MAP)
            value.values.push_back (random_value (random, value.types[1], depth + 1));
        }
      break;
    default:
      value.number = random_number (random, type);
    }
  return value;
}

inline Value
random_arguments (Random &random)
{
  random.n_values_left = 100;
  return random_value (random, TPS_WIRE_STRUCT, 0);
}

inline void
write_value (TpsWriter *out, const Value &value)
{
  guint32 n_values = static_cast<guint32> (value.values.size ());
  gdouble number;

  switch (value.type)
    {
    case TPS_WIRE_BOOL:
      tps_writer_bool (out, value.number != 0);
      break;
    case TPS_WIRE_BYTE:
      tps_writer_byte (out, static_cast<gint8> (value.number));
      break;
    case TPS_WIRE_I16:
      tps_writer_i16 (out, static_cast<gint16> (value.number));
      break;
    case TPS_WIRE_I32:
      tps_writer_i32 (out, static_cast<gint32> (value.number));
      break;
    case TPS_WIRE_I64:
      tps_writer_i64 (out, value.number);
      break;
    case TPS_WIRE_DOUBLE:
      memcpy (&number, &value.number, sizeof number);
      tps_writer_double (out, number);
      break;
    case TPS_WIRE_BINARY:
      tps_writer_binary_borrowed (out, value.bytes.data (), value.bytes.size ());
      break;
    case TPS_WIRE_STRUCT:
      tps_writer_struct_begin (out);
      for (guint i = 0; i < n_values; i++)
        {
          tps_writer_field (out, value.ids[i], value.values[i].type);
          write_value (out, value.values[i]);
        }
      tps_writer_struct_end (out);
      return;
    case TPS_WIRE_MAP:
      tps_writer_map_begin (out, value.types[0], value.types[1], n_values / 2);
      break;
    case TPS_WIRE_SET:
      tps_writer_set_begin (out, value.types[0], n_values);
      break;
    default:
      tps_writer_list_begin (out, value.types[0], n_values);
    }
  for (const Value &element : value.values)
    write_value (out, element);
}

inline Value read_value (TpsReader *in, TpsWireType type);

inline void
read_fields (TpsReader *in, Value &value)
{
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    {
      value.ids.push_back (id);
      value.values.push_back (read_value (in, type));
    }
  tps_reader_struct_end (in);
}

inline Value
read_value (TpsReader *in, TpsWireType type)
{
  Value value;
  guint32 n_elems = 0;
  TpsBytesView view;
  gdouble number;

  value.type = type;
  switch (type)
    {
    case TPS_WIRE_BOOL:
      value.number = tps_reader_bool (in);
      break;
    case TPS_WIRE_BYTE:
      value.number = tps_reader_byte (in);
      break;
    case TPS_WIRE_I16:
      value.number = tps_reader_i16 (in);
      break;
    case TPS_WIRE_I32:
      value.number = tps_reader_i32 (in);
      break;
    case TPS_WIRE_I64:
      value.number = tps_reader_i64 (in);
      break;
    case TPS_WIRE_DOUBLE:
      number = tps_reader_double (in);
      memcpy (&value.number, &number, sizeof number);
      break;
    case TPS_WIRE_BINARY:
      view = tps_reader_binary (in);
      value.bytes.assign (reinterpret_cast<const char *> (view.data), view.n_bytes);
      break;
    case TPS_WIRE_STRUCT:
      read_fields (in, value);
      break;
    case TPS_WIRE_MAP:
      tps_reader_map_begin (in, &value.types[0], &value.types[1], &n_elems);
      break;
    default:
      tps_reader_list_begin (in, &value.types[0], &n_elems);
    }
  for (guint32 i = 0; i < n_elems && !in->bad; i++)
    {
      value.values.push_back (read_value (in, value.types[0]));
      if (type == TPS_WIRE_MAP)
        value.values.push_back (read_value (in, value.types[1]));
    }
  return value;
}

} // namespace thriftps
