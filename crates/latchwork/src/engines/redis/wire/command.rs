//! Commands, as RESP: an array of strings, each behind its length.

/// Room for the number of arguments, which is known at the end: `*` and at most ten digits, CR LF.
const HEAD: usize = 13;

/// A command, as bytes to send.
pub(in crate::engines::redis) struct Command {
    bytes: Vec<u8>,
    args: usize,
    /// The start of the number of keys, behind the digest or source of a script.
    script_args: usize,
}

/// An argument of a command.
pub(in crate::engines::redis) trait Arg {
    fn write(&self, command: &mut Command);
}

impl Arg for [u8] {
    fn write(&self, command: &mut Command) {
        command.parts(&[self]);
    }
}

impl Arg for str {
    fn write(&self, command: &mut Command) {
        self.as_bytes().write(command);
    }
}

impl Arg for u64 {
    fn write(&self, command: &mut Command) {
        let mut digits = [0; 20];
        decimal(*self, &mut digits).write(command);
    }
}

impl Command {
    /// A command with this name, and room for `bytes` more bytes.
    pub(in crate::engines::redis) fn new(name: &str, bytes: usize) -> Self {
        let mut all = Vec::with_capacity(HEAD + name.len() + 16 + bytes);
        all.resize(HEAD, 0);
        let mut command = Self { bytes: all, args: 0, script_args: 0 };
        command.arg(name);
        command
    }

    /// A command of a few words.
    pub(in crate::engines::redis) fn of(words: &[&str]) -> Self {
        let mut command = Self::new(words[0], words.iter().map(|word| word.len() + 16).sum());
        for word in &words[1..] {
            command.arg(*word);
        }
        command
    }

    /// EVALSHA of the script with this digest. The caller appends `keys` keys, and then arguments.
    pub(in crate::engines::redis) fn evalsha(digest: &str, keys: usize, bytes: usize) -> Self {
        let mut command = Self::new("EVALSHA", digest.len() + 32 + bytes);
        command.arg(digest);
        command.script_args = command.bytes.len();
        command.arg(&(keys as u64));
        command
    }

    /// EVAL with the source of the script, and the keys and arguments of this EVALSHA.
    pub(in crate::engines::redis) fn with_source(&self, source: &str) -> Self {
        let args = &self.bytes[self.script_args..];
        let mut command = Self::new("EVAL", source.len() + args.len() + 16);
        command.arg(source);
        command.bytes.extend_from_slice(args);
        command.args = self.args;
        command
    }

    pub(in crate::engines::redis) fn arg(&mut self, arg: &(impl Arg + ?Sized)) -> &mut Self {
        arg.write(self);
        self
    }

    /// Appends one argument that consists of these parts, without concatenating them elsewhere first.
    pub(in crate::engines::redis) fn parts(&mut self, parts: &[&[u8]]) {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut digits = [0; 20];
        self.bytes.push(b'$');
        self.bytes.extend_from_slice(decimal(length as u64, &mut digits));
        self.bytes.extend_from_slice(b"\r\n");
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.extend_from_slice(b"\r\n");
        self.args += 1;
    }

    /// The bytes to send.
    pub(in crate::engines::redis) fn packed(&mut self) -> &[u8] {
        let mut digits = [0; 20];
        let count = decimal(self.args as u64, &mut digits);
        let from = HEAD - count.len() - 3;
        self.bytes[from] = b'*';
        self.bytes[from + 1..HEAD - 2].copy_from_slice(count);
        self.bytes[HEAD - 2..HEAD].copy_from_slice(b"\r\n");
        &self.bytes[from..]
    }
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_number_and_the_lengths_of_its_arguments() {
        let mut command = Command::of(&["SET", "k"]);
        command.arg(&b"a\r\n\0"[..]).arg(&0_u64).arg(&u64::MAX).arg("");
        command.parts(&[b"{", b"", b"k}"]);
        let packed = "*7\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\n\0\r\n$1\r\n0\r\n$20\r\n18446744073709551615\r\n$0\r\n\r\n$3\r\n{k}\r\n";
        assert_eq!(command.packed(), packed.as_bytes());
        assert_eq!(command.packed(), packed.as_bytes(), "a second time");
        let mut many = Command::of(&["DEL"]);
        for _ in 0..99_999 {
            many.arg("x");
        }
        assert!(many.packed().starts_with(b"*100000\r\n$3\r\nDEL\r\n$1\r\nx\r\n"));
    }

    #[test]
    fn eval_has_the_keys_and_arguments_of_evalsha() {
        let mut by_digest = Command::evalsha("abc", 1, 10);
        by_digest.arg("key").arg(&7_u64);
        let mut by_text = by_digest.with_source("return 1");
        assert_eq!(
            by_digest.packed(),
            b"*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$3\r\nkey\r\n$1\r\n7\r\n"
        );
        assert_eq!(
            by_text.packed(),
            b"*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nkey\r\n$1\r\n7\r\n"
        );
    }
}
