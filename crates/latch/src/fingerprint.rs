//! A short hash of texts, for comparisons and file names. It is the same in every version of `latch`.

/// FNV-1a, 64 bits, in 16 hexadecimal digits. Every part is followed by a zero byte, so that `a`, `bc` and
/// `ab`, `c` differ.
pub(crate) fn fingerprint(parts: &[&str]) -> String {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_never_changes_and_depends_on_the_borders_of_its_parts() {
        assert_eq!(fingerprint(&[]), "cbf29ce484222325");
        assert_eq!(fingerprint(&["a"]), "089be207b544f1e4");
        assert_ne!(fingerprint(&["a", "bc"]), fingerprint(&["ab", "c"]));
    }
}
