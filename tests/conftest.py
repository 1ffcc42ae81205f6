import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

settings.register_profile("adadim", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("adadim")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session")
def torch():
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.fixture
def gpu(torch):
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA GPU")
    return torch
