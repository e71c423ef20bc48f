package nvmeof

import "strings"

// MaxNQNLength is the longest NQN in bytes (NVMe Base Specification 2.0, 4.5).
const MaxNQNLength = 223

// DiscoveryNQN is the well-known NQN of every discovery subsystem. It names no
// subsystem and no host of ours.
const DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

const uuidNQNPrefix = "nqn.2014-08.org.nvmexpress:uuid:"

// ParseNQN returns s if it is an NVMe qualified name that this library
// accepts: "nqn.", year-month, a dot, a reversed domain in lower case, a colon,
// and a name of letters, digits and ". _ : -", at most MaxNQNLength bytes. In
// the form nqn.2014-08.org.nvmexpress:uuid:UUID the last part must be a UUID in
// lower case. This is stricter than the kernel, which accepts nearly any
// directory name; the grammar excludes separators and control bytes, so that
// an NQN is always one path element.
func ParseNQN(s string) (string, error) {
	switch {
	case s == "":
		return "", invalid("nqn", s, "must not be empty")
	case len(s) > MaxNQNLength:
		return "", invalid("nqn", s, "must have at most 223 bytes")
	case s == DiscoveryNQN:
		return "", invalid("nqn", s, "must not be the discovery NQN")
	}
	rest, ok := strings.CutPrefix(s, "nqn.")
	if !ok || len(rest) < len("yyyy-mm.") || !isYearMonth(rest[:7]) || rest[7] != '.' {
		return "", invalid("nqn", s, "must begin with nqn.yyyy-mm.")
	}
	domain, name, ok := strings.Cut(rest[8:], ":")
	if !ok || !isDomain(domain) {
		return "", invalid("nqn", s, "must have a reversed lower-case domain, then a colon, after nqn.yyyy-mm.")
	}
	if name == "" || strings.IndexFunc(name, notNameRune) >= 0 {
		return "", invalid("nqn", s, "must end with a name of letters, digits and . _ : -")
	}
	if id, ok := strings.CutPrefix(s, uuidNQNPrefix); ok {
		if _, err := ParseUUID(id); err != nil {
			return "", invalid("nqn", s, "must end with a non-zero UUID in lower case after :uuid:")
		}
	}
	return s, nil
}

func isYearMonth(s string) bool {
	for i, r := range []byte(s) {
		if i == 4 {
			if r != '-' {
				return false
			}
		} else if r < '0' || r > '9' {
			return false
		}
	}
	return s[5:] >= "01" && s[5:] <= "12"
}

func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, r := range []byte(label) {
			if !isLowerAlnum(r) && r != '-' {
				return false
			}
		}
	}
	return true
}

func isLowerAlnum(r byte) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

func notNameRune(r rune) bool {
	return r >= 0x80 || !isLowerAlnum(byte(r)) && (r < 'A' || r > 'Z') && !strings.ContainsRune("._:-", r)
}
