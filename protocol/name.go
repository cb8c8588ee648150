package protocol

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of a lock, in bytes.
const MaxName = 512

// CheckName says what is wrong with the name of a lock; the error matches ErrInvalid. All keys and channels of a name must
// share one hash slot, which is why braces are allowed only as one non-empty {tag}.
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
