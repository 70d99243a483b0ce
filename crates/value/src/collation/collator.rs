//! The collation library: ICU4X with compiled data.
//!
//! Index entries on disk hold its sort keys, so its version is pinned: another one may order
//! differently, and collated indexes would have to be built again.

use super::parse::{CaseFirst, Spec};
use crate::{Error, Result};
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::preferences::{CollationCaseFirst, CollationNumericOrdering, CollationType};
use icu_collator::provider::{
    Baked, CollationDiacriticsV1, CollationJamoV1, CollationMetadata, CollationMetadataV1,
    CollationReorderingV1, CollationRootV1, CollationSpecialPrimariesV1, CollationTailoringV1,
};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use icu_normalizer::provider::{NormalizerNfdDataV1, NormalizerNfdTablesV1};
use icu_provider::{DataError, DataPayload, DataProvider, DataRequest, DataResponse};
use std::cmp::Ordering;

/// Compares by one specification.
pub(super) enum Collator {
    /// Accents are compared in the direction of the locale.
    Plain(CollatorBorrowed<'static>),
    /// The direction was changed, which the library supports only as a property of a locale.
    AccentDirection(Box<icu_collator::Collator>),
}

impl Collator {
    pub(super) fn new(spec: &Spec) -> Result<Collator> {
        let bad = |_| Error::internal("a locale of the table has no data");
        // `en_US_POSIX` becomes `en-US-posix`, which the library knows as a variant.
        let locale: Locale = spec.locale.name.replace('_', "-").parse().map_err(|_| bad(()))?;
        let mut preferences = CollatorPreferences::from(&locale);
        if let Some(variant) = spec.locale.variant {
            let value = variant.parse().map_err(|_| bad(()))?;
            preferences.collation_type =
                Some(CollationType::try_from(&value).map_err(|_| bad(()))?);
        }
        preferences.case_first = Some(match spec.case_first {
            CaseFirst::Off => CollationCaseFirst::False,
            CaseFirst::Lower => CollationCaseFirst::Lower,
            CaseFirst::Upper => CollationCaseFirst::Upper,
        });
        preferences.numeric_ordering = Some(if spec.numeric_ordering {
            CollationNumericOrdering::True
        } else {
            CollationNumericOrdering::False
        });
        let mut options = CollatorOptions::default();
        options.strength = Some(match spec.strength {
            1 => Strength::Primary,
            2 => Strength::Secondary,
            3 => Strength::Tertiary,
            4 => Strength::Quaternary,
            _ => Strength::Identical,
        });
        options.case_level = Some(if spec.case_level { CaseLevel::On } else { CaseLevel::Off });
        options.alternate_handling = Some(if spec.shifted {
            AlternateHandling::Shifted
        } else {
            AlternateHandling::NonIgnorable
        });
        options.max_variable =
            Some(if spec.space_only { MaxVariable::Space } else { MaxVariable::Punctuation });
        if spec.backwards == spec.locale.backwards() {
            let found = CollatorBorrowed::try_new(preferences, options);
            return found.map(Collator::Plain).map_err(|_| bad(()));
        }
        let data = AccentDirection { backwards: spec.backwards };
        let found = icu_collator::Collator::try_new_unstable(&data, preferences, options);
        found.map(|collator| Collator::AccentDirection(Box::new(collator))).map_err(|_| bad(()))
    }

    #[inline]
    pub(super) fn compare(&self, a: &str, b: &str) -> Ordering {
        match self {
            Collator::Plain(collator) => collator.compare(a, b),
            Collator::AccentDirection(collator) => collator.as_borrowed().compare(a, b),
        }
    }

    pub(super) fn append_key(&self, text: &str, out: &mut Vec<u8>) {
        let Ok(()) = match self {
            Collator::Plain(collator) => collator.write_sort_key_to(text, out),
            Collator::AccentDirection(collator) => {
                collator.as_borrowed().write_sort_key_to(text, out)
            }
        };
    }
}

/// The compiled data, with another direction of accents.
struct AccentDirection {
    backwards: bool,
}

/// The bit of the metadata that makes accents count from the end.
const BACKWARDS: u32 = 1 << 7;

impl DataProvider<CollationMetadataV1> for AccentDirection {
    fn load(
        &self,
        request: DataRequest<'_>,
    ) -> Result<DataResponse<CollationMetadataV1>, DataError> {
        let found: DataResponse<CollationMetadataV1> = Baked.load(request)?;
        let bits = found.payload.get().bits;
        let bits = if self.backwards { bits | BACKWARDS } else { bits & !BACKWARDS };
        let payload = DataPayload::from_owned(CollationMetadata { bits });
        Ok(DataResponse { metadata: found.metadata, payload })
    }
}

/// All else is the compiled data as it is.
macro_rules! as_compiled {
    ($($marker:ty => $data:expr),* $(,)?) => {$(
        impl DataProvider<$marker> for AccentDirection {
            fn load(&self, request: DataRequest<'_>) -> Result<DataResponse<$marker>, DataError> {
                $data.load(request)
            }
        }
    )*};
}

as_compiled! {
    CollationSpecialPrimariesV1 => Baked,
    CollationRootV1 => Baked,
    CollationTailoringV1 => Baked,
    CollationDiacriticsV1 => Baked,
    CollationJamoV1 => Baked,
    CollationReorderingV1 => Baked,
    NormalizerNfdDataV1 => icu_normalizer::provider::Baked,
    NormalizerNfdTablesV1 => icu_normalizer::provider::Baked,
}
