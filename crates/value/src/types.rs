//! The BSON types: their bytes on the wire, the names that `$type` knows, and their rank in
//! MongoDB's comparison order.

/// A BSON type. The number is its byte on the wire; `Missing` never is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of the BSON specification")]
pub enum Type {
    Missing = 0x00,
    Double = 0x01,
    String = 0x02,
    Document = 0x03,
    Array = 0x04,
    Binary = 0x05,
    Undefined = 0x06,
    ObjectId = 0x07,
    Bool = 0x08,
    DateTime = 0x09,
    Null = 0x0A,
    Regex = 0x0B,
    DbPointer = 0x0C,
    Code = 0x0D,
    Symbol = 0x0E,
    CodeWithScope = 0x0F,
    Int32 = 0x10,
    Timestamp = 0x11,
    Int64 = 0x12,
    Decimal = 0x13,
    MaxKey = 0x7F,
    MinKey = 0xFF,
}

/// Every type with the name that `$type` uses for it.
static NAMES: &[(Type, &str)] = &[
    (Type::Missing, "missing"),
    (Type::Double, "double"),
    (Type::String, "string"),
    (Type::Document, "object"),
    (Type::Array, "array"),
    (Type::Binary, "binData"),
    (Type::Undefined, "undefined"),
    (Type::ObjectId, "objectId"),
    (Type::Bool, "bool"),
    (Type::DateTime, "date"),
    (Type::Null, "null"),
    (Type::Regex, "regex"),
    (Type::DbPointer, "dbPointer"),
    (Type::Code, "javascript"),
    (Type::Symbol, "symbol"),
    (Type::CodeWithScope, "javascriptWithScope"),
    (Type::Int32, "int"),
    (Type::Timestamp, "timestamp"),
    (Type::Int64, "long"),
    (Type::Decimal, "decimal"),
    (Type::MaxKey, "maxKey"),
    (Type::MinKey, "minKey"),
];

impl Type {
    /// The type with this byte on the wire.
    #[inline]
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Type> {
        Some(match byte {
            0x01 => Type::Double,
            0x02 => Type::String,
            0x03 => Type::Document,
            0x04 => Type::Array,
            0x05 => Type::Binary,
            0x06 => Type::Undefined,
            0x07 => Type::ObjectId,
            0x08 => Type::Bool,
            0x09 => Type::DateTime,
            0x0A => Type::Null,
            0x0B => Type::Regex,
            0x0C => Type::DbPointer,
            0x0D => Type::Code,
            0x0E => Type::Symbol,
            0x0F => Type::CodeWithScope,
            0x10 => Type::Int32,
            0x11 => Type::Timestamp,
            0x12 => Type::Int64,
            0x13 => Type::Decimal,
            0x7F => Type::MaxKey,
            0xFF => Type::MinKey,
            _ => return None,
        })
    }

    /// The name that `$type` and error messages use.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(t, _)| *t == self).map_or("missing", |(_, name)| name)
    }

    /// The type that `$type` calls `name`; `missing` is not one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Type> {
        NAMES.iter().find(|(t, n)| *n == name && *t != Type::Missing).map(|(t, _)| *t)
    }

    /// The number that `$type` takes: the wire byte, with MinKey as -1.
    #[must_use]
    pub fn number(self) -> i32 {
        if self == Type::MinKey { -1 } else { i32::from(self as u8) }
    }

    /// Rank of the type in MongoDB's order: values of different ranks never compare by content.
    #[inline]
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Type::MinKey => 10,
            Type::Missing => 12,
            Type::Undefined => 15,
            Type::Null => 20,
            Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => 30,
            Type::String | Type::Symbol => 60,
            Type::Document => 70,
            Type::Array => 80,
            Type::Binary => 90,
            Type::ObjectId => 100,
            Type::Bool => 110,
            Type::DateTime => 120,
            Type::Timestamp => 130,
            Type::Regex => 140,
            Type::DbPointer => 150,
            Type::Code => 160,
            Type::CodeWithScope => 170,
            Type::MaxKey => 240,
        }
    }

    /// Whether this is one of the four number types.
    #[inline]
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Type::Double | Type::Int32 | Type::Int64 | Type::Decimal)
    }
}
