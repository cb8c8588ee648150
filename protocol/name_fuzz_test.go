package protocol_test

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/protocol"
)

func TestEscapeName(t *testing.T) {
	t.Parallel()
	sum := func(s string) string { return fmt.Sprintf("%%~%x", sha256.Sum256([]byte(s))) }
	long, dirty, wide := strings.Repeat("x", 513), strings.Repeat("\n", 200), strings.Repeat("ü", 300)
	for s, name := range map[string]string{
		"": "%", "orders": "orders", "a b:c/d": "a b:c/d", "ünï😀": "ünï😀", "100%": "100%25", "%": "%25", "%~": "%25~", "%41": "%2541",
		"{shop}:orders": "%7Bshop%7D:orders", "a{": "a%7B", "{}": "%7B%7D", "a\nb\x00": "a%0Ab%00", "\x7f\u0085": "%7F%C2%85",
		"\xff\xc3": "%FF%C3", "\uFFFD": "\uFFFD", strings.Repeat("x", 512): strings.Repeat("x", 512), strings.Repeat("\n", 170): strings.Repeat("%0A", 170),
		long: long[:446] + sum(long), dirty: strings.Repeat("%0A", 148) + sum(dirty), wide: strings.Repeat("ü", 223) + sum(wide),
	} {
		assert.Equal(t, name, protocol.EscapeName(s), "%q", s)
	}
}

// Any string becomes a legal name, and different strings become different names. Either unescaping the name gives the string, or the name
// ends with the string's hash.
func FuzzEscapeName(f *testing.F) {
	for _, s := range []string{
		"", "%", "%25", "{", "{x}", "x", "a{b}c{d}", "\xff", "a\xc3", "\x00", "ü", strings.Repeat("a", 511) + "%", strings.Repeat("{", 171), strings.Repeat("ü", 257),
	} {
		f.Add(s, s+"x")
		f.Add(s+strings.Repeat("y", 510), s+strings.Repeat("y", 509))
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		name := protocol.EscapeName(s)
		require.NoError(t, protocol.CheckName(name), "legal")
		require.LessOrEqual(t, len(name), protocol.MaxName)
		require.Equal(t, s == other, name == protocol.EscapeName(other), "%q, %q", s, other)
		if protocol.CheckName(s) == nil && !strings.ContainsAny(s, "%{}") {
			require.Equal(t, s, name, "a legal name stays the same")
		}
		switch beginning, hash, shortened := strings.Cut(name, "%~"); {
		case shortened:
			require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(s))), hash)
			was, err := url.PathUnescape(beginning)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(s, was), "the name begins like the string")
			require.Greater(t, len(name), protocol.MaxName-len("%F0%9F%98%80"), "the name is as long as possible")
		case name == "%":
			require.Empty(t, s)
		default:
			was, err := url.PathUnescape(name)
			require.NoError(t, err)
			require.Equal(t, s, was)
		}
	})
}
