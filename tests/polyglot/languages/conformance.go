// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The conformance client in Go. README.md lists the checks.
//
//	conformance HOST PORT TABLE
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"reflect"
	"strings"

	"github.com/apache/thrift/lib/go/thrift"

	"thriftps/embedding_table"
	"thriftps/node"
	"thriftps/parameter_server"
	"thriftps/tensor"
)

const (
	batch = 1<<53 + 1
	large = 5000000
	limit = 256 << 20
)

var ctx = context.Background()

func tensorOf(dtype tensor.DType, shape []int64, values interface{}) *tensor.Tensor {
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, values); err != nil {
		log.Fatal(err)
	}
	return &tensor.Tensor{Dtype: dtype, Shape: shape, Data: data.Bytes()}
}

func floats(shape []int64, values ...float32) *tensor.Tensor {
	return tensorOf(tensor.DType_FLOAT32, shape, values)
}

func int64s(values ...int64) *tensor.Tensor {
	return tensorOf(tensor.DType_INT64, []int64{int64(len(values))}, values)
}

func filled(value float32) []float32 {
	values := make([]float32, large)
	for i := range values {
		values[i] = value
	}
	return values
}

func check(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}

func expect(what string, got, expected *tensor.Tensor) {
	if got.Dtype != expected.Dtype || !reflect.DeepEqual(got.Shape, expected.Shape) ||
		!bytes.Equal(got.Data, expected.Data) {
		log.Fatalf("%s: wrong values", what)
	}
}

func checkTable(tables *embedding_table.EmbeddingTableClient, name string) {
	check("create_table", tables.CreateTable(ctx, &embedding_table.TableSpec{
		Name: name, Rows: 10, Dim: 2, Dtype: tensor.DType_FLOAT32,
		Initializer: &embedding_table.Initializer{Kind: embedding_table.InitializerKind_ZEROS},
		Optimizer:   &tensor.Optimizer{Kind: tensor.OptimizerKind_SGD, LearningRate: 1},
	}))
	gradient := &tensor.SparseTensor{
		Indices: int64s(3, 7), Values: floats([]int64{2, 2}, 1, 2, 3, 4), Shape: []int64{10, 2}}
	push := &tensor.PushId{Client: name, Sequence: batch}
	for i := 0; i < 2; i++ {
		check("apply_row_gradients", tables.ApplyRowGradients(ctx, name, gradient, push))
	}

	rows, err := tables.LookupRows(ctx, name, int64s(3, 7, 0))
	check("lookup_rows", err)
	expect("rows", rows, floats([]int64{3, 2}, -1, -2, -3, -4, 0, 0))
	pooled, err := tables.LookupBags(ctx, []*embedding_table.BagQuery{{
		Table: name, Indices: int64s(3, 7, 7), Offsets: int64s(0, 1),
		Pooling: embedding_table.Pooling_SUM}})
	check("lookup_bags", err)
	expect("bags", pooled[0], floats([]int64{2, 2}, -1, -2, -6, -8))
}

func checkError(tables *embedding_table.EmbeddingTableClient) {
	_, err := tables.LookupRows(ctx, "missing", int64s(0))
	var failure *node.ServiceError
	if !errors.As(err, &failure) || failure.Code != node.ErrorCode_NOT_FOUND ||
		!strings.Contains(failure.Message, "missing") {
		log.Fatalf("a missing table: %v", err)
	}
}

func checkAverage(server *parameter_server.ParameterServerClient, paramLoc int32,
	values, expected *tensor.Tensor) {
	average, err := server.AverageGradient(ctx, 1, batch, paramLoc, &tensor.Gradient{Dense: values})
	check("average_gradient", err)
	expect("average", average.Dense, expected)
}

func main() {
	// The limits of the library are below 20 MB: OPERATING.md, languages.
	conf := &thrift.TConfiguration{MaxMessageSize: limit, MaxFrameSize: limit}
	socket := thrift.NewTSocketConf(net.JoinHostPort(os.Args[1], os.Args[2]), conf)
	transport := thrift.NewTFramedTransportConf(socket, conf)
	protocol := thrift.NewTBinaryProtocolConf(transport, conf)
	clientOf := func(service string) thrift.TClient {
		return thrift.NewTStandardClient(protocol, thrift.NewTMultiplexedProtocol(protocol, service))
	}
	tables := embedding_table.NewEmbeddingTableClient(clientOf("EmbeddingTable"))
	server := parameter_server.NewParameterServerClient(clientOf("ParameterServer"))
	three := []int64{3}
	many := []int64{large}

	check("open", transport.Open())
	checkTable(tables, os.Args[3])
	checkError(tables)
	checkAverage(server, 0, floats(three, 1, 2, 3), floats(three, 2, 3, 4))
	checkAverage(server, 1, floats(many, filled(1)...), floats(many, filled(2)...))
	check("close", transport.Close())
	fmt.Println("ok")
}
