//! The locales of collations, and their names in the collation library.
//!
//! The names are those of ICU 57, without what our library has no data for and would silently order
//! by the general rules: six languages (haw, kl, lkt, se, smn, yi), and the order variants for
//! searching and for old Chinese character sets.

/// Sorted: languages, then those with a script or region.
static LOCALES: &[&str] = &[
    "af",
    "am",
    "ar",
    "as",
    "az",
    "be",
    "bg",
    "bn",
    "bo",
    "bs",
    "bs_Cyrl",
    "ca",
    "chr",
    "cs",
    "cy",
    "da",
    "de",
    "de_AT",
    "dsb",
    "dz",
    "ee",
    "el",
    "en",
    "en_US",
    "en_US_POSIX",
    "eo",
    "es",
    "et",
    "fa",
    "fa_AF",
    "fi",
    "fil",
    "fo",
    "fr",
    "fr_CA",
    "ga",
    "gl",
    "gu",
    "ha",
    "he",
    "hi",
    "hr",
    "hsb",
    "hu",
    "hy",
    "id",
    "ig",
    "is",
    "it",
    "ja",
    "ka",
    "kk",
    "km",
    "kn",
    "ko",
    "kok",
    "ky",
    "lb",
    "ln",
    "lo",
    "lt",
    "lv",
    "mk",
    "ml",
    "mn",
    "mr",
    "ms",
    "mt",
    "my",
    "nb",
    "ne",
    "nl",
    "nn",
    "om",
    "or",
    "pa",
    "pl",
    "ps",
    "pt",
    "ro",
    "ru",
    "si",
    "sk",
    "sl",
    "sq",
    "sr",
    "sr_Latn",
    "sv",
    "sw",
    "ta",
    "te",
    "th",
    "to",
    "tr",
    "ug",
    "uk",
    "ur",
    "vi",
    "wae",
    "yo",
    "zh",
    "zh_Hant",
    "zu",
];

/// Sorted: locales that check for text which is not normalised. Ours always does; it is shown only.
static NORMALIZED: &[&str] = &[
    "as", "bn", "el", "fa", "fa_AF", "gu", "he", "hi", "ig", "km", "kn", "kok", "mr", "my", "or",
    "pa", "ps", "si", "ta", "te", "th", "vi", "yo",
];

/// The order variants that all locales have, then those of one: locale, name, our library's name.
static VARIANTS: &[(&str, &str, &str)] = &[
    ("", "emoji", "emoji"),
    ("", "eor", "eor"),
    ("ar", "compat", "compat"),
    ("bn", "traditional", "trad"),
    ("de", "phonebook", "phonebk"),
    ("de_AT", "phonebook", "phonebk"),
    ("es", "traditional", "trad"),
    ("fi", "traditional", "trad"),
    ("ja", "unihan", "unihan"),
    ("kn", "traditional", "trad"),
    ("ko", "unihan", "unihan"),
    ("si", "dictionary", "dict"),
    ("sv", "standard", "standard"),
    ("vi", "traditional", "trad"),
    ("zh", "unihan", "unihan"),
    ("zh", "zhuyin", "zhuyin"),
    ("zh_Hant", "pinyin", "pinyin"),
    ("zh_Hant", "unihan", "unihan"),
    ("zh_Hant", "zhuyin", "zhuyin"),
];

/// A locale with its order variant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locale {
    /// The name without the variant.
    pub(super) name: &'static str,
    /// What our library calls the variant, if there is one.
    pub(super) variant: Option<&'static str>,
}

impl Locale {
    /// The locale of a name such as `fr_CA` or `de@collation=phonebook`.
    pub(super) fn find(name: &str) -> Option<Locale> {
        let (base, variant) = match name.split_once("@collation=") {
            Some((base, variant)) => (base, Some(variant)),
            None => (name, None),
        };
        let name = LOCALES.get(LOCALES.binary_search(&base).ok()?).copied()?;
        let Some(variant) = variant else { return Some(Locale { name, variant: None }) };
        let row = VARIANTS.iter().find(|(of, known, _)| {
            *known == variant && (*of == name || (of.is_empty() && name != "en_US_POSIX"))
        })?;
        Some(Locale { name, variant: Some(row.2) })
    }

    /// A known name that is similar to an unknown one.
    pub(super) fn nearest(name: &str) -> Option<&'static str> {
        let mut parts = name.split(['-', '_', '@']);
        let language = parts.next()?.to_lowercase();
        if let Some(region) = parts.next() {
            let region = region.to_uppercase();
            if let Some(found) = Locale::find(&format!("{language}_{region}")) {
                return Some(found.name);
            }
        }
        Locale::find(&language).map(|found| found.name)
    }

    /// Whether capitals come first unless a collation says otherwise.
    pub(super) fn upper_first(self) -> bool {
        matches!(self.name, "da" | "mt")
    }

    /// Whether spaces and punctuation do not count unless a collation says otherwise.
    pub(super) fn shifted(self) -> bool {
        self.name == "th"
    }

    /// Whether the last accent decides unless a collation says otherwise.
    pub(super) fn backwards(self) -> bool {
        self.name == "fr_CA"
    }

    /// Whether ICU checks for text which is not normalised.
    pub(super) fn normalized(self) -> bool {
        NORMALIZED.binary_search(&self.name).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_names_are_found() {
        assert!(LOCALES.is_sorted() && NORMALIZED.is_sorted());
        assert!(Locale::find("en").is_some_and(|l| l.variant.is_none()));
        assert_eq!(Locale::find("de@collation=phonebook").unwrap().variant, Some("phonebk"));
        assert_eq!(Locale::find("fr@collation=emoji").unwrap().variant, Some("emoji"));
        for unknown in ["", "xx", "EN", "en-US", "en_GB", "root", "zh@collation=stroke", "de@x"] {
            assert!(Locale::find(unknown).is_none(), "{unknown}");
        }
        assert_eq!(Locale::nearest("en-US"), Some("en_US"));
        assert_eq!(Locale::nearest("EN"), Some("en"));
        assert_eq!(Locale::nearest("en_GB"), Some("en"));
        assert_eq!(Locale::nearest("xx"), None);
    }
}
