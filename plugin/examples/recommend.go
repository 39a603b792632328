// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Reads the tables that train_recommender.py or split_tables.py trains, and prints the five best
// items for a user.
//
//	recommend USER HOST:PORT HOST:PORT...
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"thriftps/embedding_table"
	"thriftps/node"
	"thriftps/tensor"
)

var ctx = context.Background()

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Repeats a call while the server replies with a retry time, for example during its recovery.
func persist(call func() error) {
	for begin := time.Now(); ; {
		err := call()
		var failure *node.ServiceError
		if !errors.As(err, &failure) || failure.RetryAfterMs == nil ||
			time.Since(begin) > time.Minute {
			check(err)
			return
		}
		time.Sleep(time.Duration(*failure.RetryAfterMs) * time.Millisecond)
	}
}

func connect(address string) *embedding_table.EmbeddingTableClient {
	conf := &thrift.TConfiguration{}
	transport := thrift.NewTFramedTransportConf(thrift.NewTSocketConf(address, conf), conf)
	check(transport.Open())
	protocol := thrift.NewTBinaryProtocolConf(transport, conf)
	multiplexed := thrift.NewTMultiplexedProtocol(protocol, "EmbeddingTable")
	return embedding_table.NewEmbeddingTableClient(thrift.NewTStandardClient(protocol, multiplexed))
}

// Returns the server's shard of a table.
func findShard(server *embedding_table.EmbeddingTableClient,
	table string) *embedding_table.TableSpec {
	var specs []*embedding_table.TableSpec
	persist(func() (err error) {
		specs, err = server.ListTables(ctx)
		return err
	})
	for _, spec := range specs {
		if spec.Name == table {
			return spec
		}
	}
	log.Fatalf("there is no table %s: was it trained?", table)
	return nil
}

// Returns the rows [first, first + count), one slice for each row.
func lookUp(server *embedding_table.EmbeddingTableClient, spec *embedding_table.TableSpec,
	first, count int64) [][]float32 {
	var ids bytes.Buffer
	for id := first; id < first+count; id++ {
		check(binary.Write(&ids, binary.LittleEndian, id))
	}
	indices := &tensor.Tensor{
		Dtype: tensor.DType_INT64, Shape: []int64{count}, Data: ids.Bytes()}
	answer, err := server.LookupRows(ctx, spec.Name, indices)
	check(err)
	rows := make([][]float32, count)
	data := bytes.NewReader(answer.Data)
	for i := range rows {
		rows[i] = make([]float32, spec.Dim)
		check(binary.Read(data, binary.LittleEndian, rows[i]))
	}
	return rows
}

func main() {
	user, err := strconv.ParseInt(os.Args[1], 10, 64)
	check(err)
	var taste []float32
	items := map[int64][]float32{}
	for _, address := range os.Args[2:] {
		server := connect(address)
		users := findShard(server, "users")
		if first := users.GetFirstRow(); user >= first && user < first+users.GetShardRows() {
			taste = lookUp(server, users, user, 1)[0]
		}
		shard := findShard(server, "items")
		for i, row := range lookUp(server, shard, shard.GetFirstRow(), shard.GetShardRows()) {
			items[shard.GetFirstRow()+int64(i)] = row
		}
	}
	if taste == nil {
		log.Fatalf("there is no user %d", user)
	}

	scores := map[int64]float32{}
	best := []int64{}
	for item, row := range items {
		best = append(best, item)
		for column, value := range row {
			scores[item] += value * taste[column]
		}
	}
	sort.Slice(best, func(i, j int) bool { return scores[best[i]] > scores[best[j]] })
	fmt.Printf("user %d likes the items %v\n", user, best[:5])
}
