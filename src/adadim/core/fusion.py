"""Operations of torch that wait, until all of them are done by one kernel that is written for them.

The arithmetic of a round is some fifty operations on a few numbers of each replication, and on a device starting one
takes longer than what it does. `Fusing` is a mode of torch: what it knows as an operation that every replication can do
by itself is noted in a `_Group`, as lines of a kernel in which a program has a replication; all else is done at once,
after what waits. So nobody who computes has to know of it.

Within a program a value that was computed is used by its name. Memory that was written in another form is read after a
barrier; where one program might touch what another writes, the kernel ends and a new one begins.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from adadim.core.arrays import Array
from adadim.core.recording import Launch

TYPES = {
    torch.float64: "tl.float64",
    torch.int64: "tl.int64",
    torch.int32: "tl.int32",
    torch.int8: "tl.int8",
    torch.bool: "tl.int1",
}
MAX_WIDTH = 16384  # numbers of a replication in one program
BLOCKS = (16, 256, 2048, 8192, MAX_WIDTH)  # sizes of blocks: rows of like lengths share a kernel
MAX_LINES = 250  # of a kernel: it takes the longer to compile

# Operations on the numbers of operands of one type; names that end in "_" write into the first.
ARITHMETIC = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "rsub": "{1} - {0}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "reciprocal": "1.0 / {0}",
    "neg": "-{0}",
    "abs": "tl.abs({0})",
    "sqrt": "tl.sqrt({0})",
    "exp": "tl.exp({0})",
    "log": "tl.log({0})",
    "floor": "tl.floor({0})",
    "log1p": "libdevice.log1p({0})",
    "log2": "libdevice.log2({0})",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "clone": "{0}",
    "_to_copy": "{0}",
}
COPIES = ("clone", "_to_copy")
OF_FLAGS = {
    "add": "{0} | {1}",
    "mul": "{0} & {1}",
    **{name: ARITHMETIC[name] for name in ("bitwise_and", "bitwise_or")},
}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
REDUCTIONS = ("sum", "any", "all", "argmax", "amax", "amin")
LARGER, SMALLER = "larger({0}, {1})", "smaller({0}, {1})"  # NaN if one of the two is


class _Unfit(Exception):
    """Raised for what no kernel of this kind can do."""


class _Conflict(Exception):
    """Raised for what the kernel that is being written cannot do, but perhaps the next."""


class _Value(NamedTuple):
    """A variable of a kernel: a number, or the numbers of a row, those of a block."""

    name: str
    dtype: Any
    block: int | None


def _storage(tensor: Array) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _place(tensor: Array) -> tuple[Any, ...]:
    """What two tensors have in common if they are the same numbers in memory, whatever axes of length 1 they have."""
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.data_ptr(), tensor.dtype, *((size, step) for size, step in axes if size != 1)


class _Group:
    """Operations that wait, and the kernel for them."""

    def __init__(self, count: int, device: Any) -> None:
        self.count, self.device = count, device  # of replications
        self.lines: list[str] = []
        self.tensors: list[Array] = []  # arguments p0, p1, ... of the kernel
        self.integers: list[int] = []  # arguments n0, n1, ...
        self.floats: list[float] = []  # arguments f0, f1, ...
        self.widths: dict[int, str] = {}  # of the rows, in blocks 0, 1, ..., and their names
        self.variables, self.stores = 0, 0
        self.values: dict[int, dict[Any, _Value]] = {}  # by storage and place: what memory has or will have
        self.fresh: dict[int, Array] = {}  # tensors made here, which are not in memory yet
        self.viewed: set[int] = set()  # storages of those that others may see
        self.forms: dict[int, set[Any]] = {}  # how each storage is spread over the replications, wherever it is used
        self.written: set[int] = set()
        self.loaded: set[int] = set()  # since the last barrier
        self.stored: set[int] = set()

    # Lines

    def new(self, expression: str, dtype: Any, block: int | None) -> _Value:
        name = f"v{self.variables}"
        self.variables += 1
        self.lines.append(f"{name} = {expression}")
        return _Value(name, dtype, block)

    def number(self, value: float) -> str:
        """A number as an argument: other numbers need no other kernel."""
        if isinstance(value, float):
            self.floats.append(value)
            return f"f{len(self.floats) - 1}"
        self.integers.append(value)
        return f"n{len(self.integers) - 1}"

    def constant(self, value: float, dtype: Any) -> str:
        """A number that occurs in an operation."""
        if dtype == torch.bool:
            return f"({self.number(int(value))} != 0)"
        name = self.number(float(value) if dtype == torch.float64 else int(value))
        return name if dtype in (torch.float64, torch.int64) else f"tl.cast({name}, {TYPES[dtype]})"

    def cast(self, value: _Value, dtype: Any) -> str:
        return value.name if value.dtype == dtype else f"tl.cast({value.name}, {TYPES[dtype]})"

    def block(self, width: int) -> int | None:
        """The block of rows of this length; None for a single number."""
        if width == 1:
            return None
        if width > MAX_WIDTH:
            raise _Unfit
        if width not in self.widths:
            self.widths[width] = self.number(width)
        return list(self.widths).index(width)

    # Memory

    def _use(self, tensor: Array, form: Any, write: bool) -> None:
        """Note that memory is used, spread over the replications in this form (None: in none), behind a barrier."""
        storage = _storage(tensor)
        form = "all" if self.count == 1 else form
        known = self.forms.get(storage, set())
        if known and (write or storage in self.written) and (form is None or known != {form}):
            raise _Conflict
        if storage in self.stored or (write and storage in self.loaded):
            self.lines.append("tl.debug_barrier()")
            self.stored.clear()
            self.loaded.clear()
        self.forms.setdefault(storage, set()).add(form)
        (self.stored if write else self.loaded).add(storage)
        if write:
            self.written.add(storage)
            self.stores += 1

    def _form(self, tensor: Array) -> Any:
        """How memory is spread over the replications, the first axis; None where their parts are not apart."""
        step, offset = tensor.stride(0), tensor.storage_offset()
        pairs = list(zip(tensor.shape, tensor.stride(), strict=True))[1:]
        extent = sum((size - 1) * stride for size, stride in pairs)
        if step <= 0 or offset % step + extent >= step:
            return None
        return tensor.element_size(), step, offset // step

    def address(self, tensor: Array, own: bool, entry: str = "") -> tuple[str, int | None]:
        """Where the program's part of a tensor is, and its block; `entry` is where in it, if not all of it is meant."""
        self.tensors.append(tensor.detach())
        text = f"p{len(self.tensors) - 1}"
        if own:
            text += f" + r * {self.number(tensor.stride(0))}"
        rest = [] if entry else [axis for axis in range(int(own), tensor.ndim) if tensor.shape[axis] != 1]
        if len(rest) > 1:
            raise _Unfit
        block = self.block(tensor.shape[rest[0]]) if rest else None
        if block is not None:
            step = tensor.stride(rest[0])
            text += f" + k{block}" if step == 1 else f" + k{block} * {self.number(step)}"
        return text + entry, block

    def _load(self, address: str, dtype: Any, block: int | None) -> _Value:
        mask = "" if block is None else f", mask=in{block}, other=0"
        return self.new(f"tl.load({address}{mask})", dtype, block)

    def _store(self, address: str, value: _Value, block: int | None) -> None:
        mask = "" if block is None else f", mask=in{block}"
        self.lines.append(f"tl.store({address}, {value.name}{mask})")

    def read(self, tensor: Array, shape: Sequence[int]) -> _Value:
        """The program's part of a tensor in an operation whose result has this shape, (R,) or (R, n)."""
        own = tensor.ndim == len(shape) and tensor.shape[0] == self.count
        if not own and tensor.ndim == len(shape) and tensor.shape[0] != 1:
            raise _Unfit
        storage, place = _storage(tensor), _place(tensor)
        if own and place in self.values.get(storage, {}):
            return self.values[storage][place]
        self.save(storage)
        self._use(tensor, self._form(tensor) if own else None, False)
        address, block = self.address(tensor, own)
        value = self._load(address, tensor.dtype, block)
        if own:
            self.values.setdefault(storage, {})[place] = value
        return value

    def keep(self, tensor: Array, value: _Value) -> None:
        """Let a new tensor have a value; it is written to memory when somebody needs it there."""
        storage = _storage(tensor)
        self.values[storage], self.fresh[storage] = {_place(tensor): value}, tensor

    def save(self, storage: int) -> None:
        """Write a new tensor to memory."""
        if storage in self.fresh:
            tensor = self.fresh.pop(storage)
            self._write(tensor, self.values[storage][_place(tensor)])

    def write(self, tensor: Array, value: _Value) -> None:
        """Write a value into a tensor (R,) or (R, n)."""
        storage, place = _storage(tensor), _place(tensor)
        if storage in self.fresh and place == _place(self.fresh[storage]):
            self.values[storage] = {place: value}
            return
        self.save(storage)
        self._write(tensor, value)
        self.values[storage] = {place: value}

    def _write(self, tensor: Array, value: _Value) -> None:
        self._use(tensor, self._form(tensor), True)
        address, block = self.address(tensor, True)
        self._store(address, value, block)

    def read_entry(self, tensor: Array, indices: Sequence[_Value]) -> _Value:
        """The entry, or the row, of a tensor at positions along its first axes."""
        own, entry = self._entry(tensor, indices, write=False)
        rest = tensor.shape[len(indices) :]
        address, _ = self.address(tensor, own, entry)
        block = self.block(rest[0]) if rest else None
        if block is not None:
            address += f" + k{block} * {self.number(tensor.stride(-1))}"
        return self._load(address, tensor.dtype, block)

    def write_entry(self, tensor: Array, indices: Sequence[_Value], value: _Value) -> None:
        """Write an entry."""
        own, entry = self._entry(tensor, indices, write=True)
        self._store(self.address(tensor, own, entry)[0], value, None)
        self.values.pop(_storage(tensor), None)

    def _entry(self, tensor: Array, indices: Sequence[_Value], write: bool) -> tuple[bool, str]:
        """Whether an entry is in the program's own part, and where; its use is noted."""
        storage = _storage(tensor)
        own = indices[0].name == "r" and tensor.shape[0] == self.count
        self.save(storage)
        self._use(tensor, self._form(tensor) if own else None, write)
        entry = ""
        for axis in range(int(own), len(indices)):
            at = indices[axis].name
            if at != "r":
                at = self.new(f"tl.where({at} < 0, {at} + {self.number(tensor.shape[axis])}, {at})", None, None).name
            entry += f" + {at} * {self.number(tensor.stride(axis))}"
        return own, entry

    # Operations

    def operand(self, given: Any, shape: Sequence[int], dtype: Any) -> tuple[str, int | None]:
        """A tensor or a number as one of a type."""
        if not isinstance(given, torch.Tensor):
            return self.constant(given, dtype), None
        value = self.read(given, shape)
        return self.cast(value, dtype), value.block

    def elementwise(self, form: str, given: Sequence[Any], shape: Sequence[int], dtypes: Sequence[Any]) -> _Value:
        """An operation on operands of `dtypes`, of which the last is that of the result."""
        *types, dtype = dtypes
        if len(shape) > 2:
            raise _Unfit
        parts = [self.operand(one, shape, of) for one, of in zip(given, types, strict=True)]
        block = self.block(shape[1] if len(shape) > 1 else 1)
        text = form.format(*(name for name, _ in parts))
        if block is not None and all(part is None for _, part in parts):
            text = f"tl.where(in{block}, {text}, {text})"
        return self.new(text, dtype, block)

    def finished(self) -> tuple[str, list[Any], list[int]]:
        """The text of the kernel, its arguments, and the sizes of its blocks."""
        for storage, references in zip(list(self.fresh), _references(self.fresh.values()), strict=True):
            if references > _ALONE or storage in self.viewed:  # nobody can ask for the others
                self.save(storage)
        # Triton compiles what starts a kernel once for all that have arguments of the same types: some are spare.
        tensors, integers = _filled(self.tensors, 48, self.tensors[:1]), _filled(self.integers, 128, [0])
        floats, blocks = _filled(self.floats, 48, [0.0]), [_block_size(width) for width in self.widths]
        names = [f"p{i}" for i in range(len(tensors))]
        names += [f'n{i}: "i64"' for i in range(len(integers))] + [f'f{i}: "fp64"' for i in range(len(floats))]
        blocks = _filled(blocks, 3, [1])
        names += [f"BLOCK{i}: tl.constexpr" for i in range(len(blocks))]
        head = ["r = tl.cast(tl.program_id(0), tl.int64)"]
        for i, width in enumerate(self.widths.values()):
            head += [f"k{i} = tl.arange(0, BLOCK{i})", f"in{i} = k{i} < {width}"]
        text = f"def fused({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in head + self.lines)
        return text, [*tensors, *integers, *floats], blocks


def _filled(values: list[Any], step: int, spare: list[Any]) -> list[Any]:
    """Values with spare ones, as many as a multiple of a number."""
    return values + spare * (max(step, -(-len(values) // step) * step) - len(values))


def _block_size(width: int) -> int:
    return next(size for size in (*BLOCKS, width) if size >= width)


def _references(tensors: Any) -> list[int]:
    """How many hold each of them, in a list or dict and elsewhere."""
    return [sys.getrefcount(tensor) for tensor in tensors]


_ALONE = _references({0: torch.empty(0)}.values())[0]


class Fusing(TorchDispatchMode):  # type: ignore[misc]
    """A mode in which operations wait to be done together; `flush` does those that still wait.

    Each kernel is written down and given to `launch`.
    """

    def __init__(self, launch: Launch) -> None:
        super().__init__()
        self.launch = launch
        self.group: _Group | None = None
        self._flushing = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # the compiler, which takes seconds to load, is not used here
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        if self._flushing:
            return function(*args, **kwargs)
        if _is_view(function):
            if self.group is not None and isinstance(args[0], torch.Tensor):
                self.group.viewed.add(_storage(args[0]))
            return function(*args, **kwargs)
        if name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"):
            return function(*args, **kwargs)
        if name in _OPERATIONS:
            for _ in range(2):
                try:
                    return self._note(name, function, args, kwargs)
                except _Conflict:
                    self.flush()
                except (_Unfit, AttributeError, LookupError, TypeError, ValueError):  # or called in a way not foreseen
                    break
        self.flush()
        return function(*args, **kwargs)

    def _note(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Let an operation wait; the result is what torch would give, its numbers are still to come."""
        in_place = name.endswith("_")
        tensors = list(_tensors(args))
        given: Any = args[0] if args else None
        if in_place:
            shape, dtype, device = tuple(given.shape), given.dtype, given.device
        else:
            shape, dtype, device = _outcome(name, function, args, kwargs)
        if device.type != "cpu":  # torch has made tensors of some numbers
            args = tuple(arg.item() if _is_number(arg) else arg for arg in args)
            tensors = [tensor for tensor in tensors if not _is_number(tensor)]
        elsewhere = tensors and kwargs.get("device") not in (None, device)
        if elsewhere or not all(_fits(tensor, device) for tensor in tensors) or dtype not in TYPES:
            raise _Unfit
        if not 1 <= len(shape) <= (3 if in_place else 2) or 0 in shape:
            raise _Unfit
        group = self.group
        if group is not None and (group.count != shape[0] or group.device != device or len(group.lines) > MAX_LINES):
            raise _Conflict
        if group is None:
            group = self.group = _Group(shape[0], device)
        note = _OPERATIONS[name]
        if in_place:
            value = note(group, name[:-1], args, kwargs, shape, dtype)
            if value is not None:
                group.write(given, value)
            return given
        value = note(group, name, args, kwargs, shape, dtype)
        out = torch.empty(shape, dtype=dtype, device=device)
        if isinstance(value, _Value):
            group.keep(out, value)
        else:
            value(out)
        return out

    def flush(self) -> None:
        """Do what waits."""
        group, self.group = self.group, None
        if group is not None:
            self._flushing = True
            try:
                text, arguments, blocks = group.finished()
                if group.stores:
                    self.launch(text, group.count, arguments, blocks)
            finally:
                self._flushing = False


_dtypes: dict[Any, Any] = {}
_views: dict[Any, bool] = {}


def _tensors(args: Any) -> Any:
    """The tensors among arguments and lists of them."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from _tensors(arg)


def _each(args: Any, change: Callable[[Array], Array]) -> tuple[Any, ...]:
    """The arguments with each tensor changed, also in lists."""

    def changed(arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return change(arg)
        return [changed(one) for one in arg] if isinstance(arg, list | tuple) else arg

    return tuple(map(changed, args))


def _is_number(arg: Any) -> bool:
    return isinstance(arg, torch.Tensor) and arg.ndim == 0 and arg.device.type == "cpu"


def _fits(tensor: Array, device: Any) -> bool:
    fits = tensor.device == device and tensor.dtype in TYPES and tensor.layout == torch.strided
    return bool(fits and tensor.numel() and not tensor.requires_grad)


def _is_view(function: Any) -> bool:
    """Whether an operation gives another tensor on the same memory."""
    if function not in _views:
        aliases = [argument.alias_info for argument in function._schema.arguments]
        _views[function] = any(alias is not None and not alias.is_write for alias in aliases)
    return _views[function]


def _outcome(name: str, function: Any, args: Any, kwargs: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Shape, type and device of what an operation gives."""
    tensors = list(_tensors(args))
    device = tensors[0].device if tensors else torch.device(kwargs.get("device") or "cpu")
    kinds = [(tensor.dtype, tensor.ndim) for tensor in tensors]
    key = function, *kinds, *(type(arg) for arg in args), kwargs.get("dtype")
    if key not in _dtypes:  # as torch does it with single numbers
        single = _each(args, lambda tensor: torch.zeros((1,) * tensor.ndim, dtype=tensor.dtype))
        if name in ("full", "zeros", "ones"):
            single = ((1,), *single[1:])
        made = function(*single, **{**kwargs, **({"device": "cpu"} if "device" in kwargs else {})})
        if not isinstance(made, torch.Tensor):
            raise _Unfit
        _dtypes[key] = made.dtype
    return _shape(name, args, kwargs, tensors), _dtypes[key], device


def _shape(name: str, args: Any, kwargs: Any, tensors: Sequence[Array]) -> tuple[int, ...]:
    """Shape of what an operation gives; the axes are checked where its value is made."""
    if name == "arange":
        return (int(args[-1]),)
    if name in ("full", "zeros", "ones"):
        return tuple(args[0])
    if name in ("new_full", "new_zeros", "new_ones"):
        return tuple(args[1])
    first = tuple(tensors[0].shape) if tensors else ()
    if name in REDUCTIONS:
        keeps = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        return (*first[:-1], 1) if keeps else first[:-1]
    if name == "gather":
        return tuple(args[2].shape)
    if name == "index":
        return (*tensors[1].shape, *first[len(args[1]) :]) if len(tensors) > 1 else ()
    if name == "cat":
        return (first[0], sum(tensor.shape[-1] for tensor in tensors)) if first else ()
    axes = max(tensor.ndim for tensor in tensors)
    wide = [(1,) * (axes - tensor.ndim) + tuple(tensor.shape) for tensor in tensors]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*wide, strict=True))


# What each operation adds to a kernel: (group, name, args, kwargs, shape, dtype of the result) -> its value


def _arithmetic(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    if kwargs.get("alpha", 1) != 1 or kwargs.get("rounding_mode") or len(args) > 2:
        raise _Unfit
    common = dtype if name == "_to_copy" else _common(args, dtype)
    form = OF_FLAGS.get(name) if common == torch.bool and name not in COPIES else ARITHMETIC[name]
    if form is None or (name == "floor" and common != torch.float64):
        raise _Unfit
    return _as(group, group.elementwise(form, args, shape, [*[common] * len(args), common]), dtype)


def _common(args: Any, dtype: Any) -> Any:
    """The type in which operands are combined; that of the result if there is one."""
    types = [arg.dtype for arg in args if isinstance(arg, torch.Tensor)]
    common = types[0] if len(args) == 1 or types[0] == types[-1] == torch.float64 else torch.result_type(*args)
    if common not in TYPES or (dtype == torch.float32):
        raise _Unfit
    return common


def _as(group: _Group, value: _Value, dtype: Any) -> _Value:
    return value if value.dtype == dtype else group.new(group.cast(value, dtype), dtype, value.block)


def _compare(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    common = _common(args, None)
    if common == torch.bool and name not in ("eq", "ne"):
        raise _Unfit
    return _as(
        group, group.elementwise(f"{{0}} {COMPARISONS[name]} {{1}}", args, shape, [common] * 2 + [torch.bool]), dtype
    )


def _not(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    if args[0].dtype != torch.bool:
        raise _Unfit
    return group.elementwise("{0} == 0", args, shape, [torch.bool, torch.bool])


def _isnan(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    return group.elementwise("{0} != {0}", args, shape, [args[0].dtype, torch.bool])


def _between(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    """Clamp, maximum and minimum."""
    x, low, high = (*args, None, None)[:3]
    low, high = kwargs.get("min", low), kwargs.get("max", high)
    if name in ("minimum", "clamp_max"):
        low, high = None, low
    if dtype == torch.bool:
        raise _Unfit
    given, form = [x], "{0}"
    for bound, limit in ((low, LARGER), (high, SMALLER)):
        if bound is not None:
            form = limit.format(form, f"{{{len(given)}}}")
            given.append(bound)
    return group.elementwise(form, given, shape, [dtype] * (len(given) + 1))


def _power(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    """A power, in the cases that torch tells apart."""
    x, power = args
    if dtype != torch.float64 or not isinstance(power, int | float):
        raise _Unfit
    simple = {0.5: "tl.sqrt({0})", 1.0: "{0}", 2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}"}.get(float(power))
    if simple is not None:
        return group.elementwise(simple, [x], shape, [dtype, dtype])
    return group.elementwise("libdevice.pow({0}, {1})", [x, float(power)], shape, [dtype] * 3)


def _where(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    if len(args) != 3 or args[0].dtype != torch.bool:
        raise _Unfit
    return group.elementwise("tl.where({0}, {1}, {2})", args, shape, [torch.bool, dtype, dtype, dtype])


def _copy(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    """``x.copy_(y)``, ``x.fill_(number)`` and ``x.zero_()``."""
    return group.elementwise("{0}", [args[1] if len(args) > 1 else 0], shape, [dtype, dtype])


def _full(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    value = 0 if "zeros" in name else 1 if "ones" in name else args[-1]
    if not isinstance(value, bool | int | float):
        raise _Unfit
    return group.elementwise("{0}", [value], shape, [dtype, dtype])


def _arange(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    if args not in ((group.count,), (0, group.count)) or dtype != torch.int64:
        raise _Unfit
    return _Value("r", dtype, None)


def _along(args: Any, kwargs: Any) -> Array:
    """The operand of an operation along its last axis, (R, n)."""
    x, axis = args[0], args[1] if len(args) > 1 else kwargs.get("dim")
    axis = axis[0] if isinstance(axis, list | tuple) and len(axis) == 1 else axis
    if x.ndim != 2 or axis not in (1, -1) or kwargs.get("dtype"):
        raise _Unfit
    return x


def _reduce(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    x = _along(args, kwargs)
    if name in ("amax", "amin") and dtype != torch.float64:
        raise _Unfit
    value = group.read(x, tuple(x.shape))
    if value.block is None:
        return group.new(group.constant(0, dtype), dtype, None) if name == "argmax" else _as(group, value, dtype)
    inside, v = f"in{value.block}", value.name
    if name == "sum":
        text = f"tl.sum(tl.where({inside}, {group.cast(value, dtype)}, 0), axis=0)"
    elif name in ("any", "all"):
        flags = group.cast(value, torch.bool)
        flags = f"{flags} & {inside}" if name == "any" else f"{flags} | ({inside} == 0)"
        text = f"tl.{'max' if name == 'any' else 'min'}(tl.cast({flags}, tl.int32), axis=0) != 0"
    elif name == "argmax":
        if value.dtype == torch.float64:
            raise _Unfit
        wide = f"tl.where({inside}, {group.cast(value, torch.int64)}, {group.number(-(2**63))})"
        text = f"tl.cast(tl.argmax({wide}, axis=0), tl.int64)"
    else:
        beyond = group.number(-math.inf if name == "amax" else math.inf)
        text = f"tl.reduce(tl.where({inside}, {v}, {beyond}), 0, {'larger' if name == 'amax' else 'smaller'})"
    return group.new(text, dtype, None)


def _cumsum(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    x = _along(args, kwargs)
    value = group.read(x, tuple(x.shape))
    if value.block is None:
        return _as(group, value, dtype)
    return group.new(f"tl.cumsum({group.cast(value, dtype)}, axis=0)", dtype, value.block)


def _index(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    """``x[i, j, ...]`` with positions (R,) along the first axes, and perhaps a row left."""
    x, positions = args[:2]
    indices = _positions(group, x, positions)
    if x.ndim - len(indices) > 1 or shape != (group.count, *x.shape[len(indices) :]):
        raise _Unfit
    return group.read_entry(x, indices)


def _put(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> None:
    """``x[i, j, ...] = values`` of one entry for each replication."""
    x, positions, values = args[:3]
    if len(args) > 3 and args[3]:
        raise _Unfit
    indices = _positions(group, x, positions)
    if x.ndim != len(indices):
        raise _Unfit
    group.write_entry(x, indices, group.elementwise("{0}", [values], (group.count,), [dtype, dtype]))


def _positions(group: _Group, x: Array, positions: Any) -> list[_Value]:
    whole = (group.count,)
    if any(one is None or tuple(one.shape) != whole or one.dtype != torch.int64 for one in positions):
        raise _Unfit
    return [
        _Value("r", torch.int64, None) if hasattr(one, "counts_up") else group.read(one, whole) for one in positions
    ]


def _gather(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> _Value:
    """``x[r, i]`` in each replication r."""
    x, axis, columns = args[:3]
    return group.read_entry(x, _entry_of_each(group, x, axis, columns))


def _scatter_add(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> None:
    """``x[r, i] += values[r]`` in each replication r."""
    x, axis, columns, values = args
    if tuple(values.shape) != tuple(columns.shape):
        raise _Unfit
    indices = _entry_of_each(group, x, axis, columns)
    added = group.elementwise("{0}", [values], (group.count, 1), [dtype, dtype])
    was = group.read_entry(x, indices)
    group.write_entry(x, indices, group.new(f"{was.name} + {added.name}", dtype, None))


def _entry_of_each(group: _Group, x: Array, axis: int, columns: Array) -> list[_Value]:
    whole = (group.count, 1)
    if x.ndim != 2 or axis not in (1, -1) or tuple(columns.shape) != whole or len(x) != group.count:
        raise _Unfit
    return [_Value("r", torch.int64, None), group.read(columns, whole)]


def _concat(group: _Group, name: str, args: Any, kwargs: Any, shape: Any, dtype: Any) -> Callable[[Array], None]:
    """Rows after one another."""
    parts, axis = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if axis not in (1, -1) or any(part.ndim != 2 for part in parts):
        raise _Unfit
    values = [group.elementwise("{0}", [part], tuple(part.shape), [dtype, dtype]) for part in parts]

    def write(out: Array) -> None:
        first = 0
        for part, value in zip(parts, values, strict=True):
            group.write(out[:, first : first + part.shape[1]], value)
            first += part.shape[1]

    return write


_OPERATIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        [*ARITHMETIC, *(f"{name}_" for name in ("add", "sub", "mul", "div", "neg", "abs", "sqrt"))], _arithmetic
    ),
    **dict.fromkeys([*COMPARISONS], _compare),
    **dict.fromkeys(["bitwise_not", "logical_not"], _not),
    **dict.fromkeys(["maximum", "minimum", "clamp", "clamp_", "clamp_min", "clamp_max"], _between),
    **dict.fromkeys(["copy_", "fill_", "zero_"], _copy),
    **dict.fromkeys([f"{name}{kind}" for name in ("full", "zeros", "ones") for kind in ("", "_like")], _full),
    **dict.fromkeys(["new_full", "new_zeros", "new_ones"], _full),
    **dict.fromkeys(REDUCTIONS, _reduce),
    "arange": _arange,
    "cat": _concat,
    "cumsum": _cumsum,
    "gather": _gather,
    "index": _index,
    "index_put_": _put,
    "isnan": _isnan,
    "pow": _power,
    "scatter_add_": _scatter_add,
    "where": _where,
}
