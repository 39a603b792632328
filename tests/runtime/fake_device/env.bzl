"""How a test's program gets the fake devices: data = [FAKE_DEVICE_DATA], env = FAKE_DEVICE_ENV."""

FAKE_DEVICE_DATA = "//tests/runtime/fake_device:fake_device_library"

FAKE_DEVICE_ENV = {
    # The folder of a fake driver that can only be initialised.
    "LD_LIBRARY_PATH": "tests/cuda/host",
    "THRIFTPS_CUDA_LIBRARY": "tests/runtime/fake_device/libfake_device.so",
}
