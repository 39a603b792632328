# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

# An embedding table in Ruby: pushes the gradient of a bag of words and looks the bag up.
#
#   ruby -I GENERATED word_table.rb HOST PORT

require 'securerandom'
require 'thrift'
require 'embedding_table'

def int64s(*values)
  data = values.pack('q<*')
  ThriftPS::Tensor.new(dtype: ThriftPS::DType::INT64, shape: [values.size], data: data)
end

transport = Thrift::FramedTransport.new(Thrift::Socket.new(ARGV[0], ARGV[1].to_i))
protocol = Thrift::BinaryProtocol.new(transport)
tables = ThriftPS::EmbeddingTable::Client.new(
  Thrift::MultiplexedProtocol.new(protocol, 'EmbeddingTable')
)
transport.open

# This call also succeeds if the table exists with the same specification.
tables.create_table(
  ThriftPS::TableSpec.new(
    name: 'words', rows: 10_000, dim: 4, dtype: ThriftPS::DType::FLOAT32,
    initializer: ThriftPS::Initializer.new(kind: ThriftPS::InitializerKind::ZEROS),
    optimizer: ThriftPS::Optimizer.new(kind: ThriftPS::OptimizerKind::SGD, learning_rate: 0.1)
  )
)

# One bag of three words; its gradient is 1 in every column. A push id consists of a client name,
# which no other process may ever use, and a sequence number, which must grow with every push.
bag = ThriftPS::BagQuery.new(
  table: 'words', indices: int64s(3, 141, 59), offsets: int64s(0), pooling: ThriftPS::Pooling::SUM
)
ones = ThriftPS::Tensor.new(
  dtype: ThriftPS::DType::FLOAT32, shape: [1, 4], data: ([1.0] * 4).pack('e*')
)
push = ThriftPS::PushId.new(client: SecureRandom.uuid, sequence: 1)
tables.apply_bag_gradients([ThriftPS::BagGradient.new(query: bag, gradient: ones)], push)

pooled = tables.lookup_bags([bag]).first
puts pooled.data.unpack('e*').map { |value| format('%.1f', value) }.join(' ')
transport.close
