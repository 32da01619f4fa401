"""Import of network files of any format, told by content and not by name."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from tpulite.archive import ZIP, members
from tpulite.frontend.dense_chain import load_dense_chain
from tpulite.frontend.foreign import TFLITE, check_readable
from tpulite.frontend.given_shapes import AS_IN_FILE, FileInput, GivenShapes
from tpulite.graph.graph import Graph
from tpulite.needs import require_package

# What zipfile raises when an archive is damaged, encrypted or compressed in an unknown way.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


def load_graph(path: str | Path, given: GivenShapes = AS_IN_FILE) -> Graph:
    """Read a network from a TFLite or ONNX file, an archive of one TFLite file, or arrays (.npz).

    An archive may hold the float network beside the quantized one, if that is called
    ``*.float32.tflite``; it is passed over.

    Parameters
    ----------
    path : str or Path
        The file.
    given : GivenShapes
        Shapes of inputs, which the file may leave open.

    Returns
    -------
    Graph
        The network, named after the file.

    Raises
    ------
    ValueError
        If the file cannot be read, is corrupt, is of another format, or shapes stay open or do not
        fit; the message begins with the path.

    Notes
    -----
    ONNX files need the extra ``tpulite[onnx]``.
    """
    path = Path(path)
    try:
        return _load(path, given)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load_image_inputs(path: Path) -> Mapping[str, FileInput]:
    """Return the inputs of a TFLite or ONNX file with four extents, which may be open, by name.

    There are none in archives, and none in files that :func:`load_graph` refuses.
    """
    data = path.read_bytes() if path.is_file() else b""
    try:
        if data[4:8] == TFLITE:
            from tpulite.frontend.tflite.settle import image_inputs

            return image_inputs(data)
        if data.startswith(ZIP) or not data:
            return {}
        require_package("onnx", "onnx", "this is not a TFLite file; reading ONNX files")
        from tpulite.frontend.onnx.read.model import read_image_inputs

        return read_image_inputs(data)
    except ValueError:
        return {}


def network_name(path: Path) -> str:
    """Return what a network in a file is called: ``net_0.25`` of ``net_0.25.tflite``."""
    if path.suffix == ".zip":
        path = Path(path.stem)
    return path.stem if path.suffix[1:2].isalpha() else path.name


def _load(path: Path, given: GivenShapes) -> Graph:
    if path.is_dir():
        check_readable(b"", path / "saved_model.pb" if (path / "saved_model.pb").exists() else path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from error
    if not data:
        raise ValueError("the file is empty")
    check_readable(data, path)
    name = network_name(path)
    if data.startswith(ZIP):
        return _load_archive(data, name, given)
    if data[4:8] == TFLITE:
        return _load_tflite(data, name, given)
    if path.suffix == ".npz":
        raise ValueError("this is not an .npz archive of numpy.savez")
    require_package("onnx", "onnx", "this is not a TFLite file; reading ONNX files")
    from tpulite.frontend.onnx.file import load_onnx
    from tpulite.frontend.onnx.read.external import with_weights

    try:
        return load_onnx(with_weights(data, path), name, given)
    except ValueError as error:
        if path.suffix == ".onnx":
            raise
        raise ValueError(f"this is not a TFLite file; as an ONNX file: {error}") from error


def _load_tflite(data: bytes, name: str, given: GivenShapes) -> Graph:
    """Read a TFLite file; the 190 modules of its schema are imported only for one."""
    from tpulite.frontend.tflite.file import load_tflite

    return load_tflite(data, name, given)


def _load_archive(data: bytes, name: str, given: GivenShapes) -> Graph:
    """Read the only TFLite file of an archive, or an archive that is a network itself."""
    try:
        parts = members(data)
    except _UNREADABLE as error:
        raise ValueError(f"the archive cannot be read: {error}") from error
    if "program.json" in parts:
        raise ValueError("this is a compiled program: only run, profile, disasm and info accept it")
    if parts and all(each.endswith(".npy") for each in parts):
        if given:
            raise ValueError("--shape and --dim are for TFLite and ONNX files")
        return load_dense_chain(data, name)
    files = [name for name in parts if name.endswith(".tflite")]
    if len(files) > 1:
        files = [name for name in files if not name.endswith(".float32.tflite")]
    if len(files) != 1:
        raise ValueError(f"the archive must hold one .tflite file, not {len(files)}")
    data = parts[files[0]]
    if data[4:8] != TFLITE:
        raise ValueError("the file in the archive is not a TFLite file")
    return _load_tflite(data, name, given)
