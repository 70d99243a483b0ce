// What functions of clients find beside the language itself: the types of BSON, and the helpers of
// MongoDB's server. Runs once in each new context, before any code of a client.
(function (native) {
"use strict";
const global = globalThis;
const tag = Symbol("bson");
const ints = Symbol("ints");
// The longest array that a function of the engine walks by itself: those loops are not interrupted.
const LENGTH_MAX = 1 << 22;

// Nothing here may wait, or see other threads.
for (const name of ["Atomics", "SharedArrayBuffer", "Proxy", "Reflect", "WebAssembly", "performance", "queueMicrotask", "gc", "navigator"]) delete global[name];
delete Object.prototype.__proto__;

const hidden = (object, name, value) =>
    Object.defineProperty(object, name, { value: value, writable: true, configurable: true, enumerable: false });

// Array functions of the engine loop over `length`, also of sparse arrays and of objects that only
// look like arrays. They are called with true arrays of a bounded length.
function bounded(array) {
    if (array.length > LENGTH_MAX) throw new RangeError("array is too long");
    return array;
}
const isArray = Array.isArray, fromCharCode = String.fromCharCode;
function plain(list) {
    if (isArray(list)) return bounded(list);
    if (list === null || list === undefined) throw new TypeError("not an object");
    const length = Number(list.length) || 0, copy = [];
    if (length > LENGTH_MAX) throw new RangeError("array is too long");
    for (let at = 0; at < length; at++) if (at in Object(list)) copy[at] = list[at];
    if (length > 0) copy.length = length;
    return copy;
}
const proto = Array.prototype;
const call = Function.prototype.call.bind(Function.prototype.call);
const apply = Function.prototype.call.bind(Function.prototype.apply);
for (const name of ["at", "every", "filter", "find", "findIndex", "findLast", "findLastIndex", "forEach", "includes", "indexOf", "join", "lastIndexOf", "map", "reduce", "reduceRight", "slice", "some", "toReversed", "toSorted", "toSpliced", "with"]) {
    const inner = proto[name];
    if (inner) hidden(proto, name, { [name](...args) { return apply(inner, plain(this), args); } }[name]);
}
for (const name of ["copyWithin", "fill", "pop", "push", "reverse", "shift", "sort", "splice", "unshift"]) {
    const inner = proto[name];
    if (inner) hidden(proto, name, { [name](...args) {
        if (!isArray(this)) throw new TypeError("not an array");
        return apply(inner, bounded(this), args);
    } }[name]);
}
const push = proto.push;
hidden(proto, "concat", function (...args) {
    const all = [];
    let length = 0;
    for (const part of [this, ...args]) {
        const spreads = part !== null && typeof part === "object" ? part[Symbol.isConcatSpreadable] : false;
        if (spreads === undefined ? !isArray(part) : !spreads) {
            all[length++] = part;
            continue;
        }
        const more = plain(part);
        for (let at = 0; at < more.length; at++) if (at in more) all[length + at] = more[at];
        length += more.length;
        if (length > LENGTH_MAX) throw new RangeError("array is too long");
        all.length = length;
    }
    return all;
});
function flatten(into, list, depth) {
    for (let at = 0; at < list.length; at++) {
        if (!(at in list)) continue;
        if (isArray(list[at]) && depth > 0) flatten(into, list[at], depth - 1);
        else call(push, into, list[at]);
    }
    return into;
}
hidden(proto, "flat", function (depth) { return flatten([], plain(this), depth === undefined ? 1 : Number(depth) || 0); });
hidden(proto, "flatMap", function (fn, self) { return flatten([], plain(this).map(fn, self), 1); });

// A search for text takes the product of both lengths at worst.
function searchable(text, wanted) {
    if (text.length * wanted.length > 1e9) throw new RangeError("text is too long to be searched");
}
for (const name of ["includes", "indexOf", "lastIndexOf", "replace", "replaceAll", "split"]) {
    const inner = String.prototype[name];
    hidden(String.prototype, name, { [name](wanted, ...args) {
        const text = String(this);
        if (wanted !== null && typeof wanted === "object") return call(inner, text, wanted, ...args);
        const needle = name === "split" && wanted === undefined ? undefined : String(wanted);
        if (needle !== undefined) searchable(text, needle);
        return call(inner, text, needle, ...args);
    } }[name]);
}

function BSONType(name, fields) {
    for (const key of Object.keys(fields.prototype || {})) hidden(fields.constructor.prototype, key, fields.prototype[key]);
    hidden(global, name, fields.constructor);
}

function NumberLong(value, bottom) {
    if (!(this instanceof NumberLong)) return new NumberLong(...arguments);
    let big = 0n;
    if (arguments.length === 2) throw new Error("NumberLong needs one argument");
    if (typeof value === "string") {
        if (!/^[+-]?[0-9]+$/.test(value)) throw new Error("could not parse \"" + value + "\" to NumberLong");
        big = BigInt(value.replace(/^\+/, ""));
    } else if (value !== undefined) {
        const number = Number(value);
        if (Number.isNaN(number)) throw new Error("NumberLong needs a number or text");
        big = number >= 9223372036854775807 ? 9223372036854775807n
            : number <= -9223372036854775808 ? -9223372036854775808n : BigInt(Math.trunc(number));
        if (value instanceof NumberLong) big = value[tag]()[1];
    }
    if (BigInt.asIntN(64, big) !== big) throw new Error("out of range of NumberLong");
    hidden(this, tag, () => ["long", big]);
    Object.defineProperty(this, "floatApprox", { value: Number(big), enumerable: false });
}
const long = (object) => object[tag]()[1];
BSONType("NumberLong", { constructor: NumberLong, prototype: {
    toNumber() { return Number(long(this)); },
    valueOf() { return Number(long(this)); },
    toString() { return long(this) >= -2147483648n && long(this) <= 2147483647n ? "NumberLong(" + long(this) + ")" : "NumberLong(\"" + long(this) + "\")"; },
    tojson() { return this.toString(); },
    toJSON() { return this.toString(); },
    compare(other) { const a = long(this), b = long(NumberLong(other)); return a < b ? -1 : a > b ? 1 : 0; },
} });

function NumberInt(value) {
    if (!(this instanceof NumberInt)) return new NumberInt(...arguments);
    const int = Number(value === undefined ? 0 : value) | 0;
    hidden(this, tag, () => ["int", int]);
}
BSONType("NumberInt", { constructor: NumberInt, prototype: {
    toNumber() { return this[tag]()[1]; },
    valueOf() { return this[tag]()[1]; },
    toString() { return "NumberInt(" + this[tag]()[1] + ")"; },
    tojson() { return this.toString(); },
    toJSON() { return this.toString(); },
} });

function NumberDecimal(value) {
    if (!(this instanceof NumberDecimal)) return new NumberDecimal(...arguments);
    const text = native.decimal(value === undefined ? "0" : String(value instanceof NumberLong ? long(value) : value));
    hidden(this, tag, () => ["decimal", text]);
}
BSONType("NumberDecimal", { constructor: NumberDecimal, prototype: {
    toString() { return "NumberDecimal(\"" + this[tag]()[1] + "\")"; },
    tojson() { return this.toString(); },
    toJSON() { return this.toString(); },
} });

function ObjectId(value) {
    if (!(this instanceof ObjectId)) return new ObjectId(...arguments);
    if (value instanceof ObjectId) value = value.str;
    if (value === undefined) value = native.objectId();
    if (typeof value !== "string" || !/^[0-9a-fA-F]{24}$/.test(value)) throw new Error("invalid object id: length");
    const text = value.toLowerCase();
    hidden(this, tag, () => ["objectId", text]);
}
Object.defineProperty(ObjectId.prototype, "str", { get() { return this[tag]()[1]; }, enumerable: false });
BSONType("ObjectId", { constructor: ObjectId, prototype: {
    toString() { return "ObjectId(\"" + this.str + "\")"; },
    tojson() { return this.toString(); },
    toJSON() { return this.toString(); },
    valueOf() { return this.str; },
    equals(other) { return other instanceof ObjectId && this.str === other.str; },
    getTimestamp() { return new Date(parseInt(this.str.slice(0, 8), 16) * 1000); },
} });

function Timestamp(t, i) {
    if (!(this instanceof Timestamp)) return new Timestamp(...arguments);
    hidden(this, tag, () => ["timestamp", Number(this.t) || 0, Number(this.i) || 0]);
    hidden(this, "t", t === undefined ? 0 : Number(t));
    hidden(this, "i", i === undefined ? 0 : Number(i));
}
BSONType("Timestamp", { constructor: Timestamp, prototype: {
    getTime() { return this.t; },
    getInc() { return this.i; },
    toString() { return "Timestamp(" + this.t + ", " + this.i + ")"; },
    tojson() { return this.toString(); },
    toJSON() { return this.toString(); },
} });

function BinData(type, text) {
    if (!(this instanceof BinData)) return new BinData(...arguments);
    if (arguments.length !== 2 || typeof text !== "string") throw new Error("BinData needs a type and a text in base64");
    const kind = Number(type) & 255, hex = native.fromBase64(text);
    hidden(this, tag, () => ["binary", kind, hex]);
}
Object.defineProperty(BinData.prototype, "type", { get() { return this[tag]()[1]; }, enumerable: false });
BSONType("BinData", { constructor: BinData, prototype: {
    length() { return this[tag]()[2].length / 2; },
    len() { return this[tag]()[2].length / 2; },
    hex() { return this[tag]()[2]; },
    base64() { return native.toBase64(this[tag]()[2]); },
    toString() {
        const hex = this[tag]()[2];
        if (this.type === 4 && hex.length === 32) return "UUID(\"" + [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-") + "\")";
        return "BinData(" + this.type + ",\"" + this.base64() + "\")";
    },
    tojson() { return this.toString(); },
    toJSON() { return this.toString(); },
} });
function fromHex(type, hex) {
    if (typeof hex !== "string" || hex.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(hex)) throw new Error("text is not hexadecimal");
    return new BinData(type, native.toBase64(hex.toLowerCase()));
}
hidden(global, "HexData", (type, hex) => fromHex(type, hex));
hidden(global, "MD5", (hex) => fromHex(5, hex));
hidden(global, "UUID", (text) => {
    const hex = (text === undefined ? native.objectId() + native.objectId() : String(text)).replace(/-/g, "").slice(0, 32);
    if (hex.length !== 32) throw new Error("UUID needs 32 hexadecimal digits");
    return fromHex(4, hex);
});

function MinKey() { return MinKey; }
function MaxKey() { return MaxKey; }
for (const [name, limit] of [["minKey", MinKey], ["maxKey", MaxKey]]) {
    hidden(limit, tag, () => [name]);
    hidden(limit, "tojson", () => "{ \"$" + name + "\" : 1 }");
    hidden(limit, "toJSON", () => limit.tojson());
    hidden(global, limit.name, limit);
}

function Code(code, scope) {
    if (!(this instanceof Code)) return new Code(...arguments);
    hidden(this, tag, () => ["code", String(this.code), this.scope]);
    hidden(this, "code", code === undefined ? "" : code);
    hidden(this, "scope", scope);
}
BSONType("Code", { constructor: Code, prototype: {
    toString() { return "Code(" + JSON.stringify(String(this.code)) + ")"; },
    tojson() { return this.scope === undefined ? String(this.code) : "Code(" + JSON.stringify(String(this.code)) + "," + tojson(this.scope) + ")"; },
} });

function DBPointer(ns, id) {
    if (!(this instanceof DBPointer)) return new DBPointer(...arguments);
    const oid = ObjectId(id).str;
    hidden(this, "ns", ns); hidden(this, "id", id);
    hidden(this, tag, () => ["pointer", String(ns), oid]);
}
BSONType("DBPointer", { constructor: DBPointer, prototype: {
    toString() { return "DBPointer(\"" + this.ns + "\", " + this.id + ")"; },
    tojson() { return this.toString(); },
} });
function DBRef(ref, id, db) {
    if (!(this instanceof DBRef)) return new DBRef(...arguments);
    this.$ref = ref; this.$id = id;
    if (db !== undefined) this.$db = db;
}
BSONType("DBRef", { constructor: DBRef, prototype: {
    getRef() { return this.$ref; }, getId() { return this.$id; }, getDb() { return this.$db; }, getCollection() { return this.$ref; },
} });

hidden(global, "ISODate", (text) => {
    if (text === undefined) return new Date();
    const part = /^([0-9]{4})-?([0-9]{2})-?([0-9]{2})([T ]([0-9]{2})(:?([0-9]{2})(:?([0-9]{2}(\.[0-9]+)?))?)?(Z|([+-])([0-9]{2}):?([0-9]{2})?)?)?$/.exec(String(text));
    if (part === null) throw new Error("invalid ISO date: " + text);
    const seconds = parseFloat(part[9]) || 0;
    let time = Date.UTC(part[1], part[2] - 1, part[3], part[5] || 0, part[7] || 0, Math.floor(seconds), Math.round(seconds % 1 * 1000));
    const year = new Date(time); year.setUTCFullYear(+part[1]); time = part[1] < 100 ? year.getTime() : time;
    if (part[12]) time -= (part[12] + "1") * ((part[13] || 0) * 60 + (part[14] || 0) * 1) * 60000;
    return new Date(time);
});

// Text of values, as MongoDB's shell writes them.
function tojson(value, indent, oneLine) {
    if (indent === undefined) indent = "";
    if (value === null) return "null";
    switch (typeof value) {
    case "string": return JSON.stringify(value);
    case "number": case "boolean": case "undefined": case "bigint": return String(value);
    case "symbol": return value.toString();
    }
    if (value instanceof Date) {
        if (Number.isNaN(value.getTime())) return "ISODate(\"Invalid Date\")";
        return "ISODate(\"" + value.toISOString().replace(/\.000Z$/, "Z") + "\")";
    }
    if (value instanceof RegExp || value instanceof Error) return value.toString();
    if (typeof value.tojson === "function") return value.tojson(indent, oneLine);
    if (typeof value === "function") return value.toString();
    const many = isArray(value), inner = indent + "\t";
    const parts = [];
    if (many) for (let at = 0; at < value.length; at++) parts.push(tojson(value[at], inner, oneLine));
    else for (const name of Object.keys(value)) parts.push(JSON.stringify(name) + " : " + tojson(value[name], inner, oneLine));
    const [first, last] = many ? ["[", "]"] : ["{", "}"];
    if (parts.length === 0) return many ? "[ ]" : "{ }";
    if (oneLine) return many ? "[ " + parts.join(", ") + " ]" : "{  " + parts.join(",  ") + " }";
    const text = first + "\n" + inner + parts.join(",\n" + inner) + "\n" + indent + last;
    // What is short is written in one line.
    return indent === "" && text.length < 80 ? text.replace(/[\t\r\n]+/g, " ") : text;
}
hidden(global, "tojson", tojson);
hidden(global, "tojsononeline", (value) => tojson(value, "", true));
hidden(global, "tojsonObject", tojson);
hidden(global, "print", () => undefined);
hidden(global, "printjson", () => undefined);
hidden(global, "printjsononeline", () => undefined);
hidden(global, "hex_md5", (text) => native.md5(String(text)));
hidden(global, "sleep", (ms) => { native.sleep(Number(ms) || 0); });
hidden(global, "isString", (value) => typeof value === "string");
hidden(global, "isNumber", (value) => typeof value === "number" || value instanceof NumberLong || value instanceof NumberInt);
hidden(global, "isObject", (value) => typeof value === "object" && value !== null);
hidden(global, "assert", (value, message) => { if (!value) throw new Error(message === undefined ? "assert failed" : String(message)); });
hidden(global, "doassert", (message) => { throw new Error(String(message)); });

hidden(Array, "contains", (list, value) => { for (let at = 0; at < list.length; at++) if (list[at] == value) return true; return false; });
hidden(Array, "unique", (list) => { const out = []; for (const value of list) if (!Array.contains(out, value)) out.push(value); return out; });
hidden(Array, "sum", (list) => {
    if (list.length === 0) return null;
    let sum = list[0];
    for (let at = 1; at < list.length; at++) sum += list[at];
    return sum;
});
hidden(Array, "avg", (list) => list.length === 0 ? null : Array.sum(list) / list.length);
hidden(Array, "stdDev", (list) => {
    const mean = Array.avg(list);
    let sum = 0;
    for (let at = 0; at < list.length; at++) sum += Math.pow(list[at] - mean, 2);
    return Math.sqrt(sum / list.length);
});
hidden(Array, "tojson", tojson);
hidden(Object, "extend", (into, from) => { for (const name in from) into[name] = from[name]; return into; });
hidden(Object, "keySet", (object) => { const names = []; for (const name in object) names.push(name); return names; });
hidden(Object, "merge", (a, b) => Object.extend(Object.extend({}, a), b));
hidden(String.prototype, "ltrim", function () { return this.trimStart(); });
hidden(String.prototype, "rtrim", function () { return this.trimEnd(); });
hidden(Number.prototype, "zeroPad", function (width) { return String(this).padStart(Math.min(width, 1000), "0"); });

let emitted = [];
hidden(global, "emit", function (key, value) {
    if (arguments.length !== 2) throw new Error("emit takes 2 args");
    emitted.push({ k: key === undefined ? null : key, v: value });
});

Object.defineProperty(global, "__motif", { enumerable: false, value: Object.freeze({
    ints: ints,
    functions: [],
    // The value of a type that the language does not have.
    make(kind, a, b) {
        switch (kind) {
        case "date": return new Date(a);
        case "long": return new NumberLong(a);
        case "decimal": return new NumberDecimal(a);
        case "objectId": return new ObjectId(a);
        case "timestamp": return new Timestamp(a, b);
        case "binary": return new BinData(a, b);
        case "regex": return new RegExp(a, b);
        case "minKey": return MinKey;
        case "maxKey": return MaxKey;
        case "code": return new Code(a, b);
        case "pointer": return new DBPointer(a, new ObjectId(b));
        }
    },
    // What an object is, if it is not a plain one: a name and its parts.
    open(value) {
        if (value instanceof Date) return ["date", value.getTime()];
        if (value instanceof RegExp) return ["regex", value.source, value.flags];
        const own = value[tag];
        if (own !== undefined) return own();
        if (value instanceof Number || value instanceof String || value instanceof Boolean) return ["plain", value.valueOf()];
        return undefined;
    },
    wellFormed: (text) => text.toWellFormed(),
    emitted() { const all = emitted; emitted = []; return all; },
    describe(error) {
        if (error instanceof Error) return ["error", String(error.name), String(error.message), String(error.stack || "")];
        if (error !== null && typeof error === "object") return ["object", Object.prototype.toString.call(error)];
        return ["thrown", String(error)];
    },
}) });
})
