package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// narrow is a listener whose connections have small buffers, so that a viewer who reads nothing is noticed soon.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// Viewers who read nothing are cut off. Until then they delay nobody, and use bounded memory. The test measures the memory, so it does not run in
// parallel.
func TestStream_SlowViewers(t *testing.T) {
	const slow, size = 50, 400
	f := &fake{}
	round := 0
	change := func() { // changes every row
		round++
		entries := make([]inspect.Entry, size)
		for i := range entries {
			entries[i] = held(fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 400)), 0)
			entries[i].Holders[0].Process.Name = fmt.Sprintf("round%d@host", round)
		}
		f.set(entries...)
	}
	change()
	p := newPage(f.source(), Options{})
	p.writeWithin = time.Hour
	site := httptest.NewUnstartedServer(p)
	site.Listener = narrow{site.Listener}
	site.Start()
	defer site.Close()
	defer site.CloseClientConnections()
	for range slow {
		c, err := net.Dial("tcp", site.Listener.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
		_, err = io.WriteString(c, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	locktest.Await(t, "the streams", func() bool { return len(p.streams) == slow })

	v := watchStream(t, site.URL+"/events")
	see := func() { change(); v.sees("rows", fmt.Sprintf("round%d@host", round)) }
	see()
	before := heap()
	for range 5 {
		began := time.Now()
		see()
		assert.Less(t, time.Since(began), 3*time.Second+locktest.Slack(), "slow viewers delay the others")
	}
	assert.Less(t, heap(), before+8<<20)
	assert.Len(t, p.streams, slow+1)
}

func TestStream_CutsOffWhoReadsNothing(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set(held(strings.Repeat("x", 500), 0))
	p := newPage(f.source(), Options{})
	p.writeWithin = 100 * time.Millisecond
	site := httptest.NewUnstartedServer(p)
	site.Listener = narrow{site.Listener}
	site.Start()
	defer site.Close()
	defer site.CloseClientConnections()
	client := http.Client{Transport: &http.Transport{ReadBufferSize: 1}}
	defer client.CloseIdleConnections()
	answer, err := client.Get(site.URL + "/events")
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	locktest.Await(t, "the stream", func() bool { return len(p.streams) == 1 })
	locktest.Await(t, "the end of a stream that nobody reads", func() bool {
		entries := make([]inspect.Entry, 100)
		for i := range entries {
			entries[i] = held(fmt.Sprintf("%d-%d-%s", time.Now().UnixNano(), i, strings.Repeat("x", 400)), i)
		}
		f.set(entries...)
		return len(p.streams) == 0
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, p.views, "nobody watches")
}

// A stream stays open while nothing changes. In HTTP/2, a stream ends when its write deadline passes, even if nothing is being written.
func TestStream_LivesWhileNothingChanges(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set(held("a", 0))
	p := newPage(f.source(), Options{})
	p.writeWithin, p.every = time.Second, 3*time.Second
	site := httptest.NewUnstartedServer(p)
	site.EnableHTTP2 = true
	site.StartTLS()
	defer site.Close()
	answer, err := site.Client().Get(site.URL + "/events")
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, 2, answer.ProtoMajor)
	events := bufio.NewReader(answer.Body)
	_, err = events.ReadString('\n')
	require.NoError(t, err)
	_, err = events.ReadString('\n')
	require.NoError(t, err)
	f.set(held("b", 0)) // the next look shows this change, after the deadline has passed
	event, err := events.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, event, `"order":["b"]`)
}

// heap returns the number of bytes in use on the heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
