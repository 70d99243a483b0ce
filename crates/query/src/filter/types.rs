//! `$type`: a set of BSON types, read from names and numbers.

use value::{Code, Error, RawVal, Result, Type, Val};

/// A set of types. `number` is the four number types and remembers its name for explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeSet {
    types: Vec<Type>,
    number: bool,
}

impl TypeSet {
    /// Parses the argument of `$type`: a name, a number, or an array of them.
    ///
    /// # Errors
    /// `BadValue`, `TypeMismatch` or `FailedToParse` as MongoDB gives them.
    pub fn parse(value: Val<'_>, field: &str) -> Result<TypeSet> {
        let mut set = TypeSet::default();
        match value {
            Val::Array(array) => {
                for (_, element) in array {
                    set.add(element.get())?;
                }
                if set.types.is_empty() && !set.number {
                    return Err(Error::failed_to_parse(format!(
                        "{field} must match at least one type"
                    )));
                }
            }
            value => set.add(value)?,
        }
        Ok(set)
    }

    fn add(&mut self, value: Val<'_>) -> Result<()> {
        if let Val::String(name) = value {
            return self.add_name(name);
        }
        if !value.is_number() {
            return Err(Error::type_mismatch("type must be represented as a number or a string"));
        }
        let number = value.as_i64_exact();
        let found = match number {
            Some(-1) => Some(Type::MinKey),
            Some(0) => {
                return Err(Error::bad_value(
                    "Invalid numerical type code: 0. Instead use {$exists:false}.",
                ));
            }
            Some(n) => u8::try_from(n).ok().filter(|byte| *byte != 0xFF).and_then(Type::from_byte),
            None => None,
        };
        match found {
            Some(found) => {
                self.insert(found);
                Ok(())
            }
            None => Err(Error::new(
                Code::BAD_VALUE,
                format!("Invalid numerical type code: {}", number_text(value)),
            )),
        }
    }

    /// Adds a type by its name, or `number`.
    ///
    /// # Errors
    /// `BadValue` if no type has this name.
    pub fn add_name(&mut self, name: &str) -> Result<()> {
        if name == "number" {
            self.number = true;
            return Ok(());
        }
        if name == "missing" {
            return Err(Error::bad_value(
                "'missing' is not a legal type name. To query for non-existence of a field, use \
                 {$exists:false}.",
            ));
        }
        match Type::from_name(name) {
            Some(found) => {
                self.insert(found);
                Ok(())
            }
            None => Err(Error::bad_value(format!("Unknown type name alias: {name}"))),
        }
    }

    /// Adds a type.
    pub fn insert(&mut self, found: Type) {
        if !self.types.contains(&found) {
            self.types.push(found);
        }
    }

    /// Whether the set has the type.
    #[inline]
    #[must_use]
    pub fn contains(&self, kind: Type) -> bool {
        self.types.contains(&kind) || (self.number && kind.is_number())
    }

    /// Whether the set has the type of the value.
    #[inline]
    #[must_use]
    pub fn matches(&self, value: RawVal<'_>) -> bool {
        self.contains(value.kind())
    }

    /// The types that were named one by one.
    #[must_use]
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Whether `number` was named.
    #[must_use]
    pub fn has_number(&self) -> bool {
        self.number
    }
}

fn number_text(value: Val<'_>) -> String {
    match value {
        Val::Int32(n) => n.to_string(),
        Val::Int64(n) => n.to_string(),
        Val::Double(n) => n.to_string(),
        other => other.as_f64().map_or_else(String::new, |n| n.to_string()),
    }
}
