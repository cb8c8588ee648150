package protocol

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the maximum length of a lock's name, in bytes.
const MaxName = 512

// CheckName reports what is wrong with a lock's name; the error matches ErrInvalid. All keys and channels of a name must be in one
// hash slot, so braces are allowed only as one non-empty {tag}.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w name: it is empty", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("%w name: %d bytes are more than %d", ErrInvalid, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w name: it is not UTF-8", ErrInvalid)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w name: it has a control character", ErrInvalid)
	}
	opening, closing := strings.IndexByte(name, '{'), strings.IndexByte(name, '}')
	if opening < 0 && closing < 0 {
		return nil
	}
	one := strings.Count(name, "{") == 1 && strings.Count(name, "}") == 1
	if !one || closing < opening+2 {
		return fmt.Errorf("%w name: braces are allowed only as one non-empty {tag}", ErrInvalid)
	}
	return nil
}

// escapedTail is the length of the tail, which is "%~" and a SHA-256 in hexadecimal. If an escaped name is too long, EscapeName replaces the end
// of the name with the tail. No escape begins with "%~".
const escapedTail = len("%~") + 2*sha256.Size

// EscapeName turns any string into a legal name; different strings get different names. See holdfast.EscapeName.
func EscapeName(s string) string {
	if s == "" {
		return "%"
	}
	var b strings.Builder
	kept := 0 // length of the part that is kept if the escaped name is too long
	for at, r := range s {
		_, size := utf8.DecodeRuneInString(s[at:])
		if char := s[at : at+size]; isLegalAnywhere(r, size) {
			b.WriteString(char)
		} else {
			for _, c := range []byte(char) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		if b.Len() <= MaxName-escapedTail {
			kept = b.Len()
		}
	}
	if b.Len() <= MaxName {
		return b.String()
	}
	return fmt.Sprintf("%s%%~%x", b.String()[:kept], sha256.Sum256([]byte(s)))
}

// isLegalAnywhere reports whether a character stays as it is in an escaped name. Braces are always escaped. One pair of braces would be
// legal, but the names "x" and "{x}" would share keys in Redis.
func isLegalAnywhere(r rune, size int) bool {
	broken := r == utf8.RuneError && size == 1
	return !broken && !unicode.IsControl(r) && !strings.ContainsRune("%{}", r)
}

// CheckProcess reports what is wrong with the name of a process; the error matches ErrInvalid.
func CheckProcess(name string) error {
	switch {
	case len(name) > MaxName:
		return fmt.Errorf("%w process: %d bytes are more than %d", ErrInvalid, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w process: it is not UTF-8", ErrInvalid)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w process: it has a control character", ErrInvalid)
	}
	return nil
}
