"""Suites: files of the collection, seeded values, and generated matrices of the same statistics."""

import numpy as np
import pytest
from heddle_sim.sparse import compress
from heddle_sim.sparse.generated import GENERATED, generated_suite, variation
from heddle_sim.sparse.suites import FOLDER_VARIABLE, dl_folder, dl_suite, read_smtx, seeded_values


def write(folder, text, name="a.smtx"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_is_read(tmp_path):
    made = read_smtx(write(tmp_path, "3, 4, 5\n0 2 2 5 \n0 3 1 2 3 \n"))
    assert made.shape == (3, 4) and made.dense().tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]]
    for text in ("2, 2, 0\n0 0 0\n\n", "2, 2, 0\n0 0 0\n", "2, 2, 0\n0 0 0"):
        assert read_smtx(write(tmp_path, text)).elements == 0


@pytest.mark.parametrize("text, says", [
    ("3, 4, 5\n0 2 2 5\n0 3 1 2", "indices of {path} must be 5, as its first line says, not 4"),
    ("3, 4, 5\n0 2 2\n0 3 1 2 3", "indptr of {path} must have 4 pointers, one more than the 3 rows, not 3"),
    ("3, 4, 5\n0 2 1 5\n0 3 1 2 3", "indptr of {path} must not fall, not be 1 after 2 (pointer 2)"),
    ("3, 4, 5\n0 2 2 5\n0 3 1 4 3", "indices of {path} must be from 0 to 3, not 4 (row 2)"),
    ("3, 4, 5\n0 2 2 5\n0 3 1 1 3", "{path} must have each element once, not row 2, column 1 twice"),
    ("3, -4, 0\n0 0 0 0\n", "shape of {path} must be from 0 to 2147483647, not -4"),
    ("", "{path} must have three lines, the first with rows, columns and non-zeros, as files .smtx do"),
    ("3, 4\n0\n0", "{path} must have three lines, the first with rows, columns and non-zeros, as files .smtx do"),
    ("1, 1, 1\n0 1\n0\n1", "{path} must have three lines, the first with rows, columns and non-zeros, as files .smtx do"),
    ("1, 1, 1\n0 1\nzero", "{path} must have whole numbers only, as files .smtx do"),
    ("\x80\xff", "{path} must have whole numbers only, as files .smtx do"),
])
def test_broken_files_are_refused(tmp_path, text, says):
    path = tmp_path / "a.smtx"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError) as error:
        read_smtx(path)
    assert str(error.value) == says.format(path=path)


def test_a_folder(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=f"^folder must have files .smtx, not be .*: {FOLDER_VARIABLE} names another one$"):
        dl_suite(tmp_path)
    with pytest.raises(ValueError, match=r"must be a file that can be read: No such file or directory$"):
        read_smtx(tmp_path / "none.smtx")
    for name in ("b", "a"):
        write(tmp_path, "1, 4, 3\n0 3\n0 1 3\n", f"{name}.smtx")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert dl_folder() == tmp_path
    suite = dl_suite()
    assert [*suite] == ["a", "b"] and not np.array_equal(suite["a"].data, suite["b"].data)
    assert np.array_equal(suite["a"].data, dl_suite()["a"].data)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    assert dl_folder() is None


def test_values_are_of_all_int8_but_zero():
    made = seeded_values(compress("a", np.ones((100, 100), np.int8)), 1)
    assert made.data.dtype == np.int8 and set(made.data.tolist()) == {*range(-128, 128)} - {0}


def test_the_collection(collection, say):
    """All files are matrices without an element twice, and at most 16,384 elements large."""
    assert all(matrix.shape[0] * matrix.shape[1] <= 1 << 14 and (matrix.data != 0).all() for matrix in collection.values())
    assert {matrix.shape for matrix in collection.values()} >= {(64, 256), (256, 64)}
    say(f"{len(collection)} matrices")


def test_generated_matrices_have_their_statistics(generated):
    """As many elements as the sparsity says; unevenness of rows and columns within 0.06; rows without elements."""
    assert len(generated) == 12
    for name, matrix in generated.items():
        wanted = GENERATED[name]
        assert matrix.shape == (wanted.rows, wanted.columns)
        assert matrix.elements == round(wanted.rows * wanted.columns * (1 - wanted.sparsity))
        assert abs(variation(matrix.lengths) - wanted.row_variation) < 0.06, name
        assert abs(variation(matrix.transpose().lengths) - wanted.column_variation) < 0.06, name
        assert (matrix.lengths == 0).sum() >= wanted.empty_rows and (matrix.data != 0).all()


def test_generated_matrices_are_the_same_each_time(generated):
    again = generated_suite()
    assert all(np.array_equal(again[name].dense(), matrix.dense()) for name, matrix in generated.items())


def test_generated_matrices_are_like_the_collection(generated, collection):
    """Each lies between the least and the greatest sparsity and unevenness of rows and columns of the collection."""
    for measure in (lambda each: each.density, lambda each: variation(each.lengths), lambda each: variation(each.transpose().lengths)):
        found = [measure(matrix) for matrix in collection.values()]
        assert all(min(found) <= measure(matrix) <= max(found) for matrix in generated.values())
