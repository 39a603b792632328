// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.thrift.TConfiguration;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TMultiplexedProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.layered.TFramedTransport;
import org.thriftps.*;

/**
 * The conformance client in Java. README.md lists the checks.
 *
 * <p>java Conformance HOST PORT TABLE
 */
public final class Conformance {
  private static final long BATCH = (1L << 53) + 1;
  private static final int LARGE = 5000000;
  private static final int LIMIT = 256 << 20;

  private static Tensor floats(List<Long> shape, float... values) {
    ByteBuffer data = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    data.asFloatBuffer().put(values);
    return new Tensor(DType.FLOAT32, shape).setData(data);
  }

  private static Tensor int64s(long... values) {
    ByteBuffer data = ByteBuffer.allocate(8 * values.length).order(ByteOrder.LITTLE_ENDIAN);
    data.asLongBuffer().put(values);
    List<Long> shape = Collections.singletonList((long) values.length);
    return new Tensor(DType.INT64, shape).setData(data);
  }

  private static float[] filled(float value) {
    float[] values = new float[LARGE];
    Arrays.fill(values, value);
    return values;
  }

  private static void expect(String what, Tensor tensor, Tensor expected) {
    if (!tensor.equals(expected)) {
      throw new IllegalStateException(what + ": wrong values");
    }
  }

  private static void checkTable(EmbeddingTable.Client tables, String name) throws Exception {
    TableSpec spec = new TableSpec(name, 10, 2, DType.FLOAT32);
    spec.setInitializer(new Initializer().setKind(InitializerKind.ZEROS));
    spec.setOptimizer(new Optimizer(OptimizerKind.SGD, 1.0));
    tables.create_table(spec);

    Tensor values = floats(Arrays.asList(2L, 2L), 1, 2, 3, 4);
    SparseTensor gradient = new SparseTensor(int64s(3, 7), values, Arrays.asList(10L, 2L));
    for (int i = 0; i < 2; i++) {
      tables.apply_row_gradients(name, gradient, new PushId(name, BATCH));
    }

    Tensor rows = tables.lookup_rows(name, int64s(3, 7, 0));
    expect("rows", rows, floats(Arrays.asList(3L, 2L), -1, -2, -3, -4, 0, 0));
    BagQuery query = new BagQuery(name, int64s(3, 7, 7), int64s(0, 1), Pooling.SUM);
    Tensor pooled = tables.lookup_bags(Collections.singletonList(query)).get(0);
    expect("bags", pooled, floats(Arrays.asList(2L, 2L), -1, -2, -6, -8));
  }

  private static void checkError(EmbeddingTable.Client tables) throws Exception {
    try {
      tables.lookup_rows("missing", int64s(0));
    } catch (ServiceError failure) {
      if (failure.getCode() == ErrorCode.NOT_FOUND && failure.getMessage().contains("missing")) {
        return;
      }
      throw failure;
    }
    throw new IllegalStateException("a lookup in a missing table succeeded");
  }

  private static void checkAverage(
      ParameterServer.Client server, int paramLoc, Tensor values, Tensor expected)
      throws Exception {
    Gradient average = server.average_gradient(1, BATCH, paramLoc, new Gradient().setDense(values));
    expect("average", average.getDense(), expected);
  }

  public static void main(String[] arguments) throws Exception {
    // The limits of the library are below 20 MB: OPERATING.md, languages.
    TConfiguration limits = new TConfiguration(LIMIT, LIMIT, 64);
    int port = Integer.parseInt(arguments[1]);
    try (TTransport transport =
        new TFramedTransport(new TSocket(limits, arguments[0], port), LIMIT)) {
      transport.open();
      TProtocol protocol = new TBinaryProtocol(transport);
      EmbeddingTable.Client tables =
          new EmbeddingTable.Client(new TMultiplexedProtocol(protocol, "EmbeddingTable"));
      ParameterServer.Client server =
          new ParameterServer.Client(new TMultiplexedProtocol(protocol, "ParameterServer"));
      List<Long> three = Collections.singletonList(3L);
      List<Long> large = Collections.singletonList((long) LARGE);

      checkTable(tables, arguments[2]);
      checkError(tables);
      checkAverage(server, 0, floats(three, 1, 2, 3), floats(three, 2, 3, 4));
      checkAverage(server, 1, floats(large, filled(1)), floats(large, filled(2)));
    }
    System.out.println("ok");
  }
}
