import pytest
from drawn_studies import alphas, small

from adadim.study import run


@pytest.fixture(scope="session")
def curves(tmp_path_factory):
    return run(small(), tmp_path_factory.mktemp("curves"), jobs=1)


@pytest.fixture(scope="session")
def against_alpha(tmp_path_factory):
    return run(alphas(), tmp_path_factory.mktemp("alphas"), jobs=1)
