// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// An embedding table in Go: pushes the gradient of a bag of words and looks the bag up.
//
//	word_table HOST PORT
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"thriftps/embedding_table"
	"thriftps/tensor"
)

func tensorOf(dtype tensor.DType, shape []int64, values interface{}) *tensor.Tensor {
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, values); err != nil {
		log.Fatal(err)
	}
	return &tensor.Tensor{Dtype: dtype, Shape: shape, Data: data.Bytes()}
}

func int64s(values ...int64) *tensor.Tensor {
	return tensorOf(tensor.DType_INT64, []int64{int64(len(values))}, values)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	conf := &thrift.TConfiguration{}
	socket := thrift.NewTSocketConf(net.JoinHostPort(os.Args[1], os.Args[2]), conf)
	transport := thrift.NewTFramedTransportConf(socket, conf)
	protocol := thrift.NewTBinaryProtocolConf(transport, conf)
	multiplexed := thrift.NewTMultiplexedProtocol(protocol, "EmbeddingTable")
	tables := embedding_table.NewEmbeddingTableClient(thrift.NewTStandardClient(protocol, multiplexed))
	check(transport.Open())
	defer transport.Close()

	// This call also succeeds if the table exists with the same specification.
	check(tables.CreateTable(ctx, &embedding_table.TableSpec{
		Name: "words", Rows: 10000, Dim: 4, Dtype: tensor.DType_FLOAT32,
		Initializer: &embedding_table.Initializer{Kind: embedding_table.InitializerKind_ZEROS},
		Optimizer:   &tensor.Optimizer{Kind: tensor.OptimizerKind_SGD, LearningRate: 0.1},
	}))

	// One bag of three words; its gradient is 1 in every column. A push id consists of a client
	// name, which no other process may ever use, and a sequence number, which must grow with every
	// push.
	bag := &embedding_table.BagQuery{
		Table: "words", Indices: int64s(3, 141, 59), Offsets: int64s(0),
		Pooling: embedding_table.Pooling_SUM}
	ones := tensorOf(tensor.DType_FLOAT32, []int64{1, 4}, []float32{1, 1, 1, 1})
	host, err := os.Hostname()
	check(err)
	client := fmt.Sprintf("%s-%d-%d", host, os.Getpid(), time.Now().UnixNano())
	check(tables.ApplyBagGradients(ctx,
		[]*embedding_table.BagGradient{{Query: bag, Gradient: ones}},
		&tensor.PushId{Client: client, Sequence: 1}))

	pooled, err := tables.LookupBags(ctx, []*embedding_table.BagQuery{bag})
	check(err)
	values := make([]float32, 4)
	check(binary.Read(bytes.NewReader(pooled[0].Data), binary.LittleEndian, values))
	fmt.Printf("%.1f %.1f %.1f %.1f\n", values[0], values[1], values[2], values[3])
}
