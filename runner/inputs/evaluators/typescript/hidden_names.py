"""Names that a script in TypeScript uses and defines nowhere, where its own `catch` would make a score of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.inputs.evaluators.python.hidden_names import hidden_name_error
from runner.inputs.evaluators.typescript.parse import TangledError, TypeScriptModule
from sandboxes.errors import SandboxUnavailableError

if TYPE_CHECKING:
    from tree_sitter import Node

_GLOBALS = """
AbortController AbortSignal AggregateError Array ArrayBuffer AsyncDisposableStack Atomics BigInt BigInt64Array
BigUint64Array Blob Boolean BroadcastChannel Buffer ByteLengthQueuingStrategy Cache CacheStorage CloseEvent
CompressionStream CountQueuingStrategy Crypto CryptoKey CustomEvent DOMException DOMMatrix DOMMatrixReadOnly
DOMPoint DOMPointReadOnly DOMQuad DOMRect DOMRectReadOnly DataView Date DecompressionStream
DedicatedWorkerGlobalScope Deno DisposableStack Error ErrorEvent EvalError Event EventSource EventTarget File
FileReader FinalizationRegistry Float16Array Float32Array Float64Array FormData Function GPU GPUAdapter
GPUAdapterInfo GPUBindGroup GPUBindGroupLayout GPUBuffer GPUBufferUsage GPUCanvasContext GPUColorWrite
GPUCommandBuffer GPUCommandEncoder GPUCompilationInfo GPUCompilationMessage GPUComputePassEncoder GPUComputePipeline
GPUDevice GPUDeviceLostInfo GPUError GPUInternalError GPUMapMode GPUOutOfMemoryError GPUPipelineError
GPUPipelineLayout GPUQuerySet GPUQueue GPURenderBundle GPURenderBundleEncoder GPURenderPassEncoder GPURenderPipeline
GPUSampler GPUShaderModule GPUShaderStage GPUSupportedFeatures GPUSupportedLimits GPUTexture GPUTextureUsage
GPUTextureView GPUUncapturedErrorEvent GPUValidationError Headers ImageBitmap ImageBitmapRenderingContext ImageData
Infinity Int16Array Int32Array Int8Array Intl Iterator JSON Location Lock LockManager Map Math MessageChannel
MessageEvent MessagePort NaN Navigator NavigatorUAData Number Object OffscreenCanvas Performance PerformanceEntry
PerformanceMark PerformanceMeasure PerformanceObserver PerformanceObserverEntryList ProgressEvent Promise
PromiseRejectionEvent Proxy QuotaExceededError RangeError ReadableByteStreamController ReadableStream
ReadableStreamBYOBReader ReadableStreamBYOBRequest ReadableStreamDefaultController ReadableStreamDefaultReader
ReferenceError Reflect RegExp Request Response Set SharedArrayBuffer Storage String SubtleCrypto SuppressedError
Symbol SyntaxError Temporal TextDecoder TextDecoderStream TextEncoder TextEncoderStream TransformStream
TransformStreamDefaultController TypeError URIError URL URLPattern URLSearchParams Uint16Array Uint32Array
Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly WebSocket Window Worker WorkerGlobalScope
WorkerLocation WorkerNavigator WritableStream WritableStreamDefaultController WritableStreamDefaultWriter
__defineGetter__ __defineSetter__ __dirname __filename __lookupGetter__ __lookupSetter__ __proto__ addEventListener
alert arguments atob btoa caches clearImmediate clearInterval clearTimeout close closed confirm console constructor
createImageBitmap crypto decodeURI decodeURIComponent dispatchEvent encodeURI encodeURIComponent escape eval exports
fetch getParent global globalThis hasOwnProperty isFinite isNaN isPrototypeOf localStorage location module name
navigator onbeforeunload onerror onload onmessage onunhandledrejection onunload parseFloat parseInt performance
postMessage process prompt propertyIsEnumerable queueMicrotask removeEventListener reportError require self
sessionStorage setImmediate setInterval setTimeout structuredClone toLocaleString toString undefined unescape
valueOf window
"""
"""What Deno's `globalThis` has, and what CommonJS and functions have; the tests ask Deno."""
_BINDS = ("name", "pattern", "parameter", "parameters", "alias")
"""The fields of nodes in which names get what they stand for."""
_ASSIGNS = ("assignment_expression", "for_in_statement")
_USES = {"call_expression": "function", "new_expression": "constructor", "member_expression": "object"}
_NAMES = ("identifier", "type_identifier", "shorthand_property_identifier_pattern")


def refuse_hidden(text: str, where: str) -> None:
    """Refuse a script that hides from itself that a name is defined nowhere. Raises EvaluatorError."""
    if "catch" not in text:
        return
    try:
        script = TypeScriptModule(text)
    except (TangledError, SandboxUnavailableError):
        return
    nodes = _below(script.root)
    bound = {script.text(name) for node in nodes for name in _bound(node) if name.type in _NAMES} | {*_GLOBALS.split()}
    for node in nodes:
        handler, body = node.child_by_field_name("handler"), node.child_by_field_name("body")
        if node.type != "try_statement" or handler is None or body is None or "throw" in script.text(handler):
            continue
        for inner in _below(body):
            used = inner.child_by_field_name(_USES.get(inner.type, ""))
            if used is not None and used.type == "identifier" and (name := script.text(used)) not in bound:
                line = handler.start_point.row + 1
                raise hidden_name_error(where, name, used.start_point.row + 1, f"`catch` of line {line}")


def _bound(node: Node) -> list[Node]:
    """The names that a node gives a value, and at times others."""
    parts = [
        *map(node.child_by_field_name, _BINDS),
        node.child_by_field_name("left") if node.type in _ASSIGNS else None,
    ]
    parts += [node] if node.type.startswith(("import_", "namespace_")) else []
    return [name for part in parts if part is not None for name in _below(part)]


def _below(node: Node) -> list[Node]:
    found, left = [], [node]
    while left:
        found.append(one := left.pop())
        left += reversed(one.named_children)
    return found
