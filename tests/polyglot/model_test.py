# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Python clients train a model on the server, and every error of its methods arrives typed."""

import junit
import peers
from peers import Call, Client, ErrorTest, Server, floats, tensor
from thriftps.node.ttypes import ErrorCode
from thriftps.parameter_server import ParameterServer
from thriftps.parameter_server.ttypes import NamedTensor
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId

SGD = Optimizer(OptimizerKind.SGD, 0.5)
WEIGHT = [1.0, 2.0, 3.0, 4.0]


def parameters(weight=WEIGHT, dtype=DType.FLOAT32):
    return [NamedTensor("weight", tensor(weight, [2, 2], dtype)),
            NamedTensor("bias", tensor([1.0], [1], dtype))]


def gradients(weight, bias):
    return [tensor([weight] * 4, [2, 2]), tensor([bias], [1])]


def values(model):
    return {parameter.name: floats(parameter.tensor.data) for parameter in model.parameters}


class Training(ErrorTest):

    def train(self, address, way, trainer, steps):
        with Client(address, ParameterServer, way) as calls:
            calls.init_model(parameters(), SGD)
            model = calls.get_model()
            for step in range(steps):
                model = calls.update_and_fetch_model(trainer, gradients(trainer + 1, step),
                                                     PushId("trainer%d" % trainer, step),
                                                     model.version)
            return model

    def test_eight_ways_at_once(self):
        n, steps = len(peers.WAYS), 4
        with Server("--ntrainer=%d" % n, "--default-service=ParameterServer") as server:
            calls = [Call(lambda t=t, way=way: self.train(server.address, way, t, steps))
                     for t, way in enumerate(peers.WAYS)]
            models = [call.wait() for call in calls]
        mean = sum(range(1, n + 1)) / n
        for model in models:
            self.assertEqual(model.version, steps + 1)
            self.assertEqual(values(model), {"weight": [w - 0.5 * steps * mean for w in WEIGHT],
                                             "bias": [1 - 0.5 * sum(range(steps))]})

    def test_a_large_model(self):
        weight = [float(i % 100) for i in range(512 * 512)]
        with Server("--ntrainer=1") as server, Client(server.address, ParameterServer) as calls:
            calls.init_model([NamedTensor("w", tensor(weight, [512, 512]))], SGD)
            model = calls.update_and_fetch_model(0, [tensor([1.0] * 512 * 512, [512, 512])], None,
                                                 0)
            self.assertEqual(floats(model.parameters[0].tensor.data), [w - 0.5 for w in weight])

    def test_momentum_and_repeats(self):
        momentum = Optimizer(OptimizerKind.SGD, 0.5, momentum=0.5)
        with Server("--ntrainer=1") as server, Client(server.address, ParameterServer) as calls:
            calls.init_model(parameters(), momentum)
            for _ in range(3):  # repeats; the push is applied once
                first = calls.update_and_fetch_model(0, gradients(1, 1), PushId("me", 1), 1)
                self.assertEqual(first.version, 2)
                self.assertEqual(values(first)["bias"], [0.5])
            second = calls.update_and_fetch_model(0, gradients(1, 1), PushId("me", 2), 2)
            self.assertEqual(values(second)["bias"], [0.5 - 0.5 * 1.5])


class Errors(ErrorTest):

    def setUp(self):
        _, self.calls = self.start("--rpc-timeout=0.2")

    def start(self, *flags):
        """A server of two trainers, and a client of it."""
        server = Server("--ntrainer=2", *flags)
        self.addCleanup(server.__exit__)
        client = Client(server.address, ParameterServer)
        self.addCleanup(client.__exit__)
        return server, client.__enter__()

    def test_before_init_model(self):
        self.assert_fails(ErrorCode.NOT_FOUND, self.calls.get_model, "init_model")
        self.assert_fails(ErrorCode.NOT_FOUND,
                          lambda: self.calls.update_and_fetch_model(0, gradients(1, 1), None, 0),
                          "init_model")

    def test_init_model(self):
        init = self.calls.init_model
        self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: init(None, SGD), "parameters")
        self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: init(parameters(), None), "optimizer")
        self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: init([], SGD), "parameters")
        self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                          lambda: init(parameters(dtype=DType.FLOAT64), SGD), "FLOAT64")
        self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                          lambda: init([parameters()[0], parameters()[0]], SGD),
                          "parameters[1].name")
        self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                          lambda: init(parameters(), Optimizer(OptimizerKind.SGD, -1.0)),
                          "learning_rate")
        self.assert_fails(ErrorCode.INVALID_ARGUMENT,
                          lambda: init(parameters(), Optimizer(OptimizerKind.SGD, 1.0, beta1=0.5)),
                          "beta1")
        init(parameters(), SGD)
        init(parameters(), SGD)
        self.assert_fails(ErrorCode.ALREADY_EXISTS, lambda: init(parameters([0.0] * 4), SGD))
        self.assert_fails(ErrorCode.ALREADY_EXISTS,
                          lambda: init(parameters(), Optimizer(OptimizerKind.SGD, 0.1)))

    def test_update(self):
        def update(trainer=0, grads=gradients(1, 1), push=None, version=0):
            return lambda: self.calls.update_and_fetch_model(trainer, grads, push, version)

        self.calls.init_model(parameters(), SGD)
        invalid = ErrorCode.INVALID_ARGUMENT
        self.assert_fails(invalid, update(trainer=2), "trainer is 2")
        self.assert_fails(invalid, update(trainer=None), "trainer")
        self.assert_fails(invalid, update(grads=None), "gradients")
        self.assert_fails(invalid, update(grads=gradients(1, 1)[:1]), "2 parameters")
        self.assert_fails(invalid, update(grads=gradients(1, 1)[::-1]), "gradients[0]", "weight")
        self.assert_fails(invalid, update(version=7), "version is 7")
        self.assert_fails(invalid, update(push=PushId("no name", 1)), "push.client")
        self.assert_fails(ErrorCode.ABORTED, update(), "missing: trainer 1")

    def test_stale_gradients(self):
        server, calls = self.start()  # its trainers wait for each other
        calls.init_model(parameters(), SGD)
        with Client(server.address, ParameterServer) as other:
            waiting = Call(lambda: other.update_and_fetch_model(1, gradients(1, 1), None, 1))
            self.assertEqual(calls.update_and_fetch_model(0, gradients(1, 1), None, 1).version, 2)
            self.assertEqual(waiting.wait().version, 2)
        self.assert_fails(ErrorCode.STALE,
                          lambda: calls.update_and_fetch_model(0, gradients(1, 1), None, 1),
                          "version 1")

    def test_reset_forgets_the_model(self):
        self.calls.init_model(parameters(), SGD)
        self.calls.reset_state()
        self.assert_fails(ErrorCode.NOT_FOUND, self.calls.get_model)


if __name__ == "__main__":
    junit.main()
