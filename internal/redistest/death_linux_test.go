package redistest_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { childproc.Register("serve", serve) }

// serve is a child that starts a server, prints its address, and waits to be killed.
func serve() {
	fmt.Println(redistest.Start(&loneTB{}).Addr())
	select {}
}

// loneTB is a test that never ends.
type loneTB struct{ testing.TB }

func (*loneTB) Helper() {}

func (*loneTB) Cleanup(func()) {}

func (*loneTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestStart_ServerDiesWithAKilledTestProcess(t *testing.T) {
	h := childproc.Run(t, "serve", "TMPDIR="+t.TempDir()) // because a killed process leaves its files behind
	addr := h.Line()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	h.Kill()
	require.Eventually(t, func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 10*time.Second, time.Millisecond)
}
