# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

# The conformance client in Ruby. README.md lists the checks.
#
#   conformance.rb HOST PORT TABLE

require 'thrift'
require 'embedding_table'
require 'parameter_server'

BATCH = 2**53 + 1
LARGE = 5_000_000

def floats(shape, *values)
  ThriftPS::Tensor.new(dtype: ThriftPS::DType::FLOAT32, shape: shape, data: values.pack('e*'))
end

def int64s(*values)
  data = values.pack('q<*')
  ThriftPS::Tensor.new(dtype: ThriftPS::DType::INT64, shape: [values.size], data: data)
end

def expect(what, tensor, expected)
  abort "#{what}: wrong values" unless tensor == expected
end

def check_table(tables, name)
  tables.create_table(
    ThriftPS::TableSpec.new(
      name: name, rows: 10, dim: 2, dtype: ThriftPS::DType::FLOAT32,
      initializer: ThriftPS::Initializer.new(kind: ThriftPS::InitializerKind::ZEROS),
      optimizer: ThriftPS::Optimizer.new(kind: ThriftPS::OptimizerKind::SGD, learning_rate: 1.0)
    )
  )
  gradient = ThriftPS::SparseTensor.new(
    indices: int64s(3, 7), values: floats([2, 2], 1, 2, 3, 4), shape: [10, 2]
  )
  push = ThriftPS::PushId.new(client: name, sequence: BATCH)
  2.times { tables.apply_row_gradients(name, gradient, push) }

  rows = tables.lookup_rows(name, int64s(3, 7, 0))
  expect('rows', rows, floats([3, 2], -1, -2, -3, -4, 0, 0))
  query = ThriftPS::BagQuery.new(
    table: name, indices: int64s(3, 7, 7), offsets: int64s(0, 1), pooling: ThriftPS::Pooling::SUM
  )
  expect('bags', tables.lookup_bags([query]).first, floats([2, 2], -1, -2, -6, -8))
end

def check_error(tables)
  tables.lookup_rows('missing', int64s(0))
  abort 'a lookup in a missing table succeeded'
rescue ThriftPS::ServiceError => e
  raise unless e.code == ThriftPS::ErrorCode::NOT_FOUND && e.message.include?('missing')
end

def check_average(server, param_loc, values, expected)
  gradient = ThriftPS::Gradient.new(dense: values)
  average = server.average_gradient(1, BATCH, param_loc, gradient)
  expect('average', average.dense, expected)
end

host, port, table = ARGV
socket = Thrift::Socket.new(host, port.to_i)
transport = Thrift::FramedTransport.new(socket)
protocol = Thrift::BinaryProtocol.new(transport)
tables = ThriftPS::EmbeddingTable::Client.new(
  Thrift::MultiplexedProtocol.new(protocol, 'EmbeddingTable')
)
server = ThriftPS::ParameterServer::Client.new(
  Thrift::MultiplexedProtocol.new(protocol, 'ParameterServer')
)
transport.open
check_table(tables, table)
check_error(tables)
check_average(server, 0, floats([3], 1, 2, 3), floats([3], 2, 3, 4))
check_average(server, 1, floats([LARGE], *[1.0] * LARGE), floats([LARGE], *[2.0] * LARGE))
transport.close
puts 'ok'
