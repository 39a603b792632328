// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TMultiplexedProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.layered.TFramedTransport;
import org.thriftps.*;

/**
 * An embedding table in Java: pushes the gradient of a bag of words and looks the bag up.
 *
 * <p>java WordTable HOST PORT
 */
public final class WordTable {
  private static Tensor int64s(long... values) {
    ByteBuffer data = ByteBuffer.allocate(8 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    data.asLongBuffer().put(values);
    List<Long> shape = Collections.singletonList((long) values.length);
    return new Tensor(DType.INT64, shape).setData(data);
  }

  private static Tensor ones(long bags, long dim) {
    int n = (int) (bags * dim);
    float[] values = new float[n];
    Arrays.fill(values, 1);
    ByteBuffer data = ByteBuffer.allocate(4 * n).order(ByteOrder.LITTLE_ENDIAN);
    data.asFloatBuffer().put(values);
    return new Tensor(DType.FLOAT32, Arrays.asList(bags, dim)).setData(data);
  }

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[1]);
    try (TTransport transport = new TFramedTransport(new TSocket(arguments[0], port))) {
      transport.open();
      EmbeddingTable.Client tables =
          new EmbeddingTable.Client(
              new TMultiplexedProtocol(new TBinaryProtocol(transport), "EmbeddingTable"));

      // This call also succeeds if the table exists with the same specification.
      tables.create_table(
          new TableSpec("words", 10000, 4, DType.FLOAT32)
              .setInitializer(new Initializer().setKind(InitializerKind.ZEROS))
              .setOptimizer(new Optimizer(OptimizerKind.SGD, 0.1)));

      // One bag of three words; its gradient is 1 in every column. A push id consists of a client
      // name, which no other process may ever use, and a sequence number, which must grow with
      // every push.
      BagQuery bag = new BagQuery("words", int64s(3, 141, 59), int64s(0), Pooling.SUM);
      PushId push = new PushId(UUID.randomUUID().toString(), 1);
      tables.apply_bag_gradients(Collections.singletonList(new BagGradient(bag, ones(1, 4))), push);

      Tensor pooled = tables.lookup_bags(Collections.singletonList(bag)).get(0);
      ByteBuffer values = ByteBuffer.wrap(pooled.getData()).order(ByteOrder.LITTLE_ENDIAN);
      System.out.printf(
          "%.1f %.1f %.1f %.1f%n",
          values.getFloat(0), values.getFloat(4), values.getFloat(8), values.getFloat(12));
    }
  }
}
