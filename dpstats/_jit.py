"""How the package compiles: every kernel at its first use, and once.

Numba keeps compiled code on disk, and takes it to be up to date while the kernel's own file is. But a kernel
holds a copy of every kernel that it calls: here the stored code is tied to the text of all modules that it
was made from. Where nothing can be stored (no folder that can be written), kernels are compiled in memory.
"""

import functools
import gc
import hashlib
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, config, types
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, overload

__all__ = ["kernel", "out_of_line", "prefetch"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ROOT = Path(__file__).parent.parent
_AHEAD = 48
_IMPORT = re.compile(r"^(?:from|import) (dpstats[\w.]*)(?: import (\([^)]*\)|.+))?", re.MULTILINE)


@functools.cache
def _text(name: str) -> str:
    """The source of a module of the package; empty for any other name."""
    path = _ROOT.joinpath(*name.split("."))
    found = [p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()]
    return found[0].read_text(encoding="utf-8") if found else ""


@functools.cache
def _digest(name: str) -> str:
    """Digest of the sources of a module and of the package's modules that it imports, directly or not."""
    texts: dict[str, str] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in texts:
            texts[module] = _text(module)
            for source, names in _IMPORT.findall(texts[module]):
                waiting += [source, *(f"{source}.{part}" for part in re.findall(r"\w+", names))]
    return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]
    """Stored code that counts as old when any module that it was made from has changed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        file = self._cache_file
        file._source_stamp = file._source_stamp, _digest(function.__module__)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            pass  # the disk is full, or the folder gone: the code is in memory


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A function that is compiled when it is first called, and not again for every constant that it is called
    with.
    """

    signatures_wanted: tuple[Signature, ...] = ()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        _, args = self._compiler.fold_argument_types(args, kws)
        args = [types.unliteral(a) for a in args]
        for signature in self.signatures_wanted:
            if all(
                self.typingctx.can_convert(a, b) is not None
                for a, b in zip(args, signature.args, strict=True)
            ):
                self.compile(signature)
                args = signature.args
                break
        return super().get_call_template(args, {})

    def compile(self, sig: Any) -> Any:
        # a compiler makes millions of small objects that live on: looking for garbage among them takes a
        # fifth of the time
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collecting:
                gc.enable()

    def enable_caching(self) -> None:
        try:
            self._cache = _Cache(self.py_func)
        except RuntimeError:
            pass  # numba: "no locator available", neither beside the file nor in a home folder


@typing.overload
def kernel(what: _Function, /) -> _Function: ...


@typing.overload
def kernel(*what: Any, **options: Any) -> Callable[[_Function], _Function]: ...


def kernel(*what: Any, **options: Any) -> Any:
    """Compile a function when it is first used: without the interpreter's lock, and stored on disk.

    Parameters
    ----------
    *what : function, or numba signatures
        Small functions with many callers are given their signature: integers of every width then share one
        version. A parameter that is ``none`` in one signature has its ``is None`` branches settled when it is
        compiled.
    **options
        ``inline`` and ``fastmath`` of `numba.njit`.

    Notes
    -----
    A division by zero gives infinity or NaN: no row can make a compiled kernel raise an error.
    """
    if not what or isinstance(what[0], Signature):
        return lambda function: _made(function, what, options)
    return _made(what[0], (), options)


def _made(
    function: Callable[..., Any], signatures: tuple[Signature, ...], options: dict[str, Any]
) -> Callable[..., Any]:
    if config.DISABLE_JIT:
        return function
    made = _Kernel(
        function,
        targetoptions={
            "nopython": True,
            "nogil": True,
            "no_cfunc_wrapper": True,
            "error_model": "numpy",
            **options,
        },
    )
    made.signatures_wanted = signatures
    made.enable_caching()
    return made


@intrinsic  # type: ignore[untyped-decorator]
def _mark(_: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), generate


def out_of_line() -> None:
    """In a kernel: its callers call it, where LLVM would copy it into each of them and optimise it again."""


@overload(out_of_line, inline="always")  # type: ignore[untyped-decorator]
def _out_of_line() -> Any:
    return lambda: _mark()


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch_row(_: Any, A: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        word, flag, pointer = stride.type, ir.IntType(32), ir.IntType(8).as_pointer()
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        )
        # integers, since an address past the end is none of the array's
        index = builder.add(arguments[1], ir.Constant(word, _AHEAD))
        row = builder.add(builder.ptrtoint(array.data, word), builder.mul(index, stride))
        read, all_caches, data = ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)
        for line in (0, 64):
            address = builder.inttoptr(builder.add(row, ir.Constant(word, line)), pointer)
            builder.call(function, [address, read, all_caches, data])
        return context.get_dummy_value()

    return types.void(A, types.intp), generate


def prefetch(A: Any, i: Any) -> None:
    """In a kernel that is at ``A[i]``: ask memory for what it reads 48 rows later, the first 128 bytes.

    The processor asks by itself, but stops at the end of every page, which holds some fifty rows of ten
    numbers. Nothing is read, also where there is no such row.
    """


@overload(prefetch, inline="always")
def _prefetch(A, i):  # type: ignore[no-untyped-def]
    return lambda A, i: _prefetch_row(A, i)
