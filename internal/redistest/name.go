package redistest

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// nameLength bounds the readable part of a name.
const nameLength = 80

var lastName atomic.Int64

// Name returns a new lock name at each call in this process. No such name is a substring of another. The name contains
// the test's name. It contains no braces and no other characters that have a meaning in a lock name.
func Name(tb testing.TB) string {
	readable := strings.Map(plain, tb.Name())
	if len(readable) > nameLength {
		readable = readable[:nameLength]
	}
	return "t" + strconv.FormatInt(lastName.Add(1), 10) + "-" + readable
}

func plain(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
		return r
	}
	return '.'
}
