package policy

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	// maxPart is the longest domain, key or value, in bytes, that stands in a
	// key as it is. In place of a longer one stands its hash.
	maxPart = 64
	// maxKey is the longest key, in bytes; of a longer one all but the domain is
	// hashed.
	maxKey = 256
	// hashSize is how many bytes of SHA-256 stand for a long part.
	hashSize = 16
)

// Key returns the name of the bucket that a descriptor takes from, such as
// shop/plan=premium/user=bob.
//
// Distinct descriptors and domains never share a key. It is printable ASCII
// without double quotes, backslashes, braces and spaces: other bytes, and those
// that the key itself is made of, are escaped as in a URL. A domain, key or value of
// more than 64 bytes is replaced by ~ and 128 bits of its SHA-256, and a
// key of more than 256 bytes is its domain, /~ and such a hash of the whole.
func Key(domain string, d Descriptor) string { return key(domain, d, nil) }

// Key returns the name of the bucket that a descriptor takes from which the rule
// is for: [Key], but that an entry of share_threshold has the rule's pattern in
// place of its value, as in shop/path~/api/*, and an address is written in the
// one usual way.
func (r *Rule) Key(domain string, d Descriptor) string { return key(domain, d, r.entries) }

func key(domain string, d Descriptor, uses []use) string {
	var array [maxKey]byte
	buf := appendPart(array[:0], domain)
	start := len(buf)
	for i := range d {
		buf = append(buf, '/')
		buf = appendPart(buf, d[i].Key)
		var u use
		if uses != nil {
			u = uses[i]
		}
		switch {
		case u.shared != "":
			buf = appendPart(append(buf, '~'), u.shared)
		case u.address:
			addr, _ := address(d[i].Value)
			buf = appendPart(append(buf, '='), addr.String())
		default:
			buf = appendPart(append(buf, '='), d[i].Value)
		}
	}
	if len(buf) > maxKey {
		sum := sha256.Sum256(buf)
		buf = hex.AppendEncode(append(buf[:start], "/~"...), sum[:hashSize])
	}
	return string(buf)
}

func appendPart(buf []byte, part string) []byte {
	if len(part) <= maxPart {
		return appendEscaped(buf, part)
	}
	sum := sha256.Sum256([]byte(part))
	return hex.AppendEncode(append(buf, '~'), sum[:hashSize])
}

// reserved are the printable bytes that are escaped: those with a meaning in
// keys or paths, and those that quote or tag in Redis, JSON and HTTP headers.
const reserved = `%/=~#{}"\`

// plain tells which bytes stand for themselves.
var plain = func() (plain [256]bool) {
	for c := '!'; c <= '~'; c++ {
		plain[c] = true
	}
	for _, c := range reserved {
		plain[c] = false
	}
	return plain
}()

func appendEscaped(buf []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	start := 0
	for i := range len(s) {
		if c := s[i]; !plain[c] {
			buf = append(buf, s[start:i]...)
			buf = append(buf, '%', digits[c>>4], digits[c&15])
			start = i + 1
		}
	}
	return append(buf, s[start:]...)
}
