package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
)

// A user who has forgotten to name the server must see that holdfast has used the default.
func TestFailed_NamesTheDefaultServer(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		app  *app
		err  error
		want string
	}{
		"default":       {&app{unnamed: true, redisURL: connect.Default}, dial, "holdfast: dial tcp: connect: connection refused (HOLDFAST_REDIS is not set; this is the default server)\n"},
		"by --redis":    {&app{unnamed: true, redisURL: "redis://other"}, dial, "holdfast: dial tcp: connect: connection refused\n"},
		"by the system": {&app{redisURL: connect.Default}, dial, "holdfast: dial tcp: connect: connection refused\n"},
		"another error": {&app{unnamed: true, redisURL: connect.Default}, errors.New("NOAUTH"), "holdfast: NOAUTH\n"},
	} {
		file := filepath.Join(t.TempDir(), "stderr")
		stderr, err := os.Create(file)
		require.NoError(t, err)
		c.app.stderr = stderr
		assert.Equal(t, exitRedis, c.app.failed(c.err), name)
		require.NoError(t, stderr.Close())
		written, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, c.want, string(written), name)
	}
}
