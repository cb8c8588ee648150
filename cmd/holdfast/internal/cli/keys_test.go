package cli

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
)

// typed returns the keys that keysOf reads if a terminal sends these parts one by one.
func typed(parts ...string) (keys []key) {
	read, write := io.Pipe()
	go func() {
		for _, part := range parts {
			_, _ = io.WriteString(write, part)
		}
		_ = write.Close()
	}()
	for k := range keysOf(read) {
		keys = append(keys, k)
	}
	return keys
}

func TestKeysOf(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []key{"a", keyUp, "世", keyEnter, keyBackspace}, typed("a\x1b[A世\r\x7f"))
	assert.Equal(t, []key{keyUp, "世"}, typed("\x1b", "[", "A", "\xe4\xb8", "\x96"), "sequences that a slow connection splits")
	assert.Equal(t, []key{keyEscape}, typed("\x1b"))
	assert.Equal(t, []key{keyEscape, "q"}, typed("\x1bq"))
	assert.Equal(t, []key{keyUnknown, "x"}, typed("\x1b[15~x"), "a function key")
	assert.Equal(t, []key{keyUnknown, "x"}, typed("\x01x"))
	assert.Len(t, typed("\xff\xfe"), 2, "not UTF-8")
	assert.Equal(t, []key{keyPageUp, keyPageDown, keyHome, keyEnd}, typed("\x1b[5~\x1b[6~\x1b[H\x1bOF"))
}
