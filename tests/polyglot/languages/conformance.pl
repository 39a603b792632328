# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

# The conformance client in Perl. README.md lists the checks.
#
#   conformance.pl HOST PORT TABLE

use strict;
use warnings;

use Thrift;
use Thrift::BinaryProtocol;
use Thrift::FramedTransport;
use Thrift::MultiplexedProtocol;
use Thrift::Socket;
use ThriftPS::EmbeddingTable::EmbeddingTable;
use ThriftPS::Node::Types;
use ThriftPS::ParameterServer::ParameterServer;
use ThriftPS::Tensor::Types;

# An integer: 2**53 is a floating-point number, which the library refuses.
use constant BATCH => (1 << 53) + 1;
use constant LARGE => 5_000_000;

sub tensor_of {
    my ($dtype, $shape, $data) = @_;
    return ThriftPS::Tensor::Tensor->new({ dtype => $dtype, shape => $shape, data => $data });
}

sub floats {
    my ($shape, @values) = @_;
    return tensor_of(ThriftPS::Tensor::DType::FLOAT32, $shape, pack('f<*', @values));
}

sub int64s {
    my (@values) = @_;
    return tensor_of(ThriftPS::Tensor::DType::INT64, [ scalar @values ], pack('q<*', @values));
}

sub filled {
    my ($value) = @_;
    return tensor_of(ThriftPS::Tensor::DType::FLOAT32, [LARGE], pack('f<', $value) x LARGE);
}

sub expect {
    my ($what, $tensor, $expected) = @_;
    die "$what: wrong values\n"
        unless $tensor->dtype == $expected->dtype
        && "@{ $tensor->shape }" eq "@{ $expected->shape }"
        && $tensor->data eq $expected->data;
    return;
}

sub check_table {
    my ($tables, $name) = @_;
    $tables->create_table(
        ThriftPS::EmbeddingTable::TableSpec->new(
            {
                name        => $name,
                rows        => 10,
                dim         => 2,
                dtype       => ThriftPS::Tensor::DType::FLOAT32,
                initializer => ThriftPS::EmbeddingTable::Initializer->new(
                    { kind => ThriftPS::EmbeddingTable::InitializerKind::ZEROS }
                ),
                optimizer => ThriftPS::Tensor::Optimizer->new(
                    { kind => ThriftPS::Tensor::OptimizerKind::SGD, learning_rate => 1 }
                ),
            }
        )
    );
    my $gradient = ThriftPS::Tensor::SparseTensor->new(
        {
            indices => int64s(3, 7),
            values  => floats([ 2, 2 ], 1, 2, 3, 4),
            shape   => [ 10, 2 ],
        }
    );
    my $push = ThriftPS::Tensor::PushId->new({ client => $name, sequence => BATCH });
    $tables->apply_row_gradients($name, $gradient, $push) for 1 .. 2;

    my $rows = $tables->lookup_rows($name, int64s(3, 7, 0));
    expect('rows', $rows, floats([ 3, 2 ], -1, -2, -3, -4, 0, 0));
    my $query = ThriftPS::EmbeddingTable::BagQuery->new(
        {
            table   => $name,
            indices => int64s(3, 7, 7),
            offsets => int64s(0, 1),
            pooling => ThriftPS::EmbeddingTable::Pooling::SUM,
        }
    );
    expect('bags', $tables->lookup_bags([$query])->[0], floats([ 2, 2 ], -1, -2, -6, -8));
    return;
}

sub check_error {
    my ($tables) = @_;
    die "a lookup in a missing table succeeded\n"
        if eval { $tables->lookup_rows('missing', int64s(0)); 1 };
    my $failure = $@;
    die $failure unless ref $failure && $failure->isa('ThriftPS::Node::ServiceError');
    die "a missing table: code $failure->{code}: $failure->{message}\n"
        unless $failure->{code} == ThriftPS::Node::ErrorCode::NOT_FOUND
        && $failure->{message} =~ /missing/;
    return;
}

sub check_average {
    my ($server, $param_loc, $values, $expected) = @_;
    my $gradient = ThriftPS::Tensor::Gradient->new({ dense => $values });
    my $average  = $server->average_gradient(1, BATCH, $param_loc, $gradient);
    expect('average', $average->dense, $expected);
    return;
}

sub run {
    my ($host, $port, $table) = @_;
    my $socket = Thrift::Socket->new({ host => $host, port => $port });
    # An average waits for the other trainers; the library would give up after 10 s.
    $socket->setRecvTimeout(60_000);
    my $transport = Thrift::FramedTransport->new($socket);
    my $protocol  = Thrift::BinaryProtocol->new($transport);
    my $tables    = ThriftPS::EmbeddingTable::EmbeddingTableClient->new($protocol,
        Thrift::MultiplexedProtocol->new($protocol, 'EmbeddingTable'));
    my $server = ThriftPS::ParameterServer::ParameterServerClient->new($protocol,
        Thrift::MultiplexedProtocol->new($protocol, 'ParameterServer'));

    $transport->open;
    check_table($tables, $table);
    check_error($tables);
    check_average($server, 0, floats([3], 1, 2, 3), floats([3], 2, 3, 4));
    check_average($server, 1, filled(1), filled(2));
    $transport->close;
    return;
}

if (!eval { run(@ARGV); 1 }) {
    my $error = $@;
    die ref $error ? "$error->{message}\n" : $error;
}
print "ok\n";
