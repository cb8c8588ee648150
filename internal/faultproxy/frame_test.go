package faultproxy

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadFrame_ReadsExactlyOneValue(t *testing.T) {
	for name, frame := range map[string]string{
		"simple string":  "+OK\r\n",
		"error":          "-ERR no\r\n",
		"integer":        ":-12\r\n",
		"bulk":           "$5\r\na\r\nbc\r\n",
		"empty bulk":     "$0\r\n\r\n",
		"null bulk":      "$-1\r\n",
		"array":          "*2\r\n$1\r\na\r\n:1\r\n",
		"empty array":    "*0\r\n",
		"null array":     "*-1\r\n",
		"nested":         "*2\r\n*2\r\n:1\r\n*1\r\n+x\r\n$1\r\nb\r\n",
		"map":            "%1\r\n+k\r\n*1\r\n:1\r\n",
		"set":            "~2\r\n:1\r\n:2\r\n",
		"push":           ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
		"attribute":      "|1\r\n+ttl\r\n:3\r\n*1\r\n:1\r\n",
		"verbatim":       "=5\r\ntxt:a\r\n",
		"blob error":     "!3\r\nERR\r\n",
		"null, boolean":  "*2\r\n_\r\n#t\r\n",
		"double, bignum": "*2\r\n,1.5\r\n(123\r\n",
		"inline":         "PING\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(frame + "+NEXT\r\n"))
			got, err := readFrame(r)
			require.NoError(t, err)
			assert.Equal(t, frame, string(got))
			rest, err := readFrame(r)
			require.NoError(t, err)
			assert.Equal(t, "+NEXT\r\n", string(rest))
		})
	}
}

func TestReadFrame_RefusesWhatIsNoFrame(t *testing.T) {
	for name, text := range map[string]string{
		"no length":       "$x\r\n",
		"negative length": "*-2\r\n",
		"too long":        "$99999999999\r\n",
		"too many":        "*99999999999\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readFrame(bufio.NewReader(strings.NewReader(text)))
			assert.ErrorContains(t, err, "faultproxy")
		})
	}
	_, err := readFrame(bufio.NewReader(strings.NewReader("$5\r\nab")))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestSubscribes_KnowsTheCommandsWithoutReply(t *testing.T) {
	assert.True(t, subscribes([]byte("*2\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n")))
	assert.True(t, subscribes([]byte("*2\r\n$12\r\nSUNSUBSCRIBE\r\n$1\r\nc\r\n")))
	assert.True(t, subscribes([]byte("PSUBSCRIBE a*\r\n")))
	assert.False(t, subscribes([]byte("*1\r\n$4\r\nPING\r\n")))
	assert.False(t, subscribes([]byte("*0\r\n")))
	assert.False(t, subscribes([]byte("\r\n")))
	assert.False(t, subscribes([]byte("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$9\r\nsubscribe\r\n")))
}
