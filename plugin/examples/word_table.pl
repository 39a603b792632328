# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

# An embedding table in Perl: pushes the gradient of a bag of words and looks the bag up.
#
#   perl -I GENERATED word_table.pl HOST PORT

use strict;
use warnings;

use Sys::Hostname;
use Thrift;
use Thrift::BinaryProtocol;
use Thrift::FramedTransport;
use Thrift::MultiplexedProtocol;
use Thrift::Socket;
use ThriftPS::EmbeddingTable::EmbeddingTable;
use ThriftPS::Tensor::Types;
use Time::HiRes;

sub int64s {
    my (@values) = @_;
    return ThriftPS::Tensor::Tensor->new(
        {
            dtype => ThriftPS::Tensor::DType::INT64,
            shape => [ scalar @values ],
            data  => pack('q<*', @values),
        }
    );
}

sub run {
    my ($host, $port) = @_;
    my $transport =
        Thrift::FramedTransport->new(Thrift::Socket->new({ host => $host, port => $port }));
    my $protocol = Thrift::BinaryProtocol->new($transport);
    my $tables   = ThriftPS::EmbeddingTable::EmbeddingTableClient->new($protocol,
        Thrift::MultiplexedProtocol->new($protocol, 'EmbeddingTable'));
    $transport->open;

    # This call also succeeds if the table exists with the same specification.
    my $zeros = ThriftPS::EmbeddingTable::Initializer->new(
        { kind => ThriftPS::EmbeddingTable::InitializerKind::ZEROS });
    my $sgd = ThriftPS::Tensor::Optimizer->new(
        { kind => ThriftPS::Tensor::OptimizerKind::SGD, learning_rate => 0.1 });
    $tables->create_table(
        ThriftPS::EmbeddingTable::TableSpec->new(
            {
                name        => 'words',
                rows        => 10_000,
                dim         => 4,
                dtype       => ThriftPS::Tensor::DType::FLOAT32,
                initializer => $zeros,
                optimizer   => $sgd,
            }
        )
    );

    # One bag of three words; its gradient is 1 in every column. A push id consists of a client
    # name, which no other process may ever use, and a sequence number, which must grow with every
    # push.
    my $bag = ThriftPS::EmbeddingTable::BagQuery->new(
        {
            table   => 'words',
            indices => int64s(3, 141, 59),
            offsets => int64s(0),
            pooling => ThriftPS::EmbeddingTable::Pooling::SUM,
        }
    );
    my $ones = ThriftPS::Tensor::Tensor->new(
        {
            dtype => ThriftPS::Tensor::DType::FLOAT32,
            shape => [ 1, 4 ],
            data  => pack('f<*', (1) x 4),
        }
    );
    my $gradient =
        ThriftPS::EmbeddingTable::BagGradient->new({ query => $bag, gradient => $ones });
    my $client = join '-', hostname, $$, int(Time::HiRes::time * 1_000_000);
    $tables->apply_bag_gradients([$gradient],
        ThriftPS::Tensor::PushId->new({ client => $client, sequence => 1 }));

    my $pooled = $tables->lookup_bags([$bag])->[0];
    print join(' ', map { sprintf '%.1f', $_ } unpack('f<*', $pooled->data)), "\n";
    $transport->close;
    return;
}

if (!eval { run(@ARGV); 1 }) {
    my $error = $@;
    die ref $error ? "$error->{message}\n" : $error;
}
